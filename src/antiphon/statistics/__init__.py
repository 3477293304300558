"""Tests and intervals on plain numbers; numpy only, so that every tier can use them."""
