from eval_scores import report_of, scored

from antiphon.evals.report.markdown import render_markdown, render_table


def test_a_page_names_scorers_figures_groups_and_what_was_left_out() -> None:
    items = [
        scored("a", {"wer": 0.5}, details={"num_units": 2, "target": "one two", "heard": "one"}, groups={"kind": "k"}),
        scored("b", {"wer": 0.0}, details={"num_units": 2}, groups={"kind": "k"}),
        scored("c", {}, error="timed out"),
    ]
    page = render_markdown(report_of(items), "plots/x.svg")
    assert "# wer: made\n\n3 items, 1 failed.\n" in page
    assert "| word errors | 25.00 % | 0.00 % … 50.00 % | 25.00 % | 2     |" in page
    assert "| k    | word errors | 25.00 % |" in page
    assert "- words: fake 1\n" in page
    assert "![figures](plots/x.svg)" in page
    assert "| a    | 50.00 % | one two | one   |" in page
    assert "- c: failed: timed out" in page


def test_only_the_first_of_many_failures_are_listed() -> None:
    page = render_markdown(report_of([scored(str(place), {}, error="x") for place in range(9)]))
    assert "- and 4 more" in page


def test_cells_do_not_break_a_table() -> None:
    assert render_table(("a", "b"), [("x|y", "two\nlines")])[2] == "| x\\|y | two lines |"
