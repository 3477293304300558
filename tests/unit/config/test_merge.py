"""Merging: laws that hold for any layers, and that no unknown key passes at any place."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.config.ignored import IGNORED, drop_ignored
from antiphon.config.merge import merge_files
from antiphon.config.origin import Origin, OriginKind, Tree, leaves, plain, source
from antiphon.config.schema import DeploySection, ExtraSection, StageSection, check_tree

ORIGIN = Origin(OriginKind.FILE, "test")
# Each key keeps its shape: a file that turns a map into a scalar is refused by the schema.
leaf = st.integers(0, 9)
maps = st.dictionaries(st.sampled_from("ab"), leaf, max_size=2)
stage = st.fixed_dictionaries({}, optional={"max_num_seqs": leaf, "default_sampling_params": maps, "env": maps})
stages = st.dictionaries(st.sampled_from("012"), stage, max_size=3)
layers = st.fixed_dictionaries(
    {},
    optional={
        "dtype": leaf,
        "stages": stages,
        "connectors": st.dictionaries(st.sampled_from("xy"), st.fixed_dictionaries({"extra": maps}), max_size=2),
        "duplex_session": maps,
        "optimizations": maps,
        "platforms": st.dictionaries(st.sampled_from(["cuda", "npu"]), st.fixed_dictionaries({"stages": stages})),
    },
)


def tree(values: dict[str, object]) -> Tree:
    return source(values, ORIGIN)


@given(layers, layers, layers)
def test_merging_is_associative(one: dict[str, object], two: dict[str, object], three: dict[str, object]) -> None:
    a, b, c = tree(one), tree(two), tree(three)
    assert merge_files(merge_files(a, b), c) == merge_files(a, merge_files(b, c))


@given(layers)
def test_merging_with_itself_or_nothing_changes_nothing(one: dict[str, object]) -> None:
    a = tree(one)
    assert merge_files(a, a) == a
    assert merge_files(a, {}) == a
    assert merge_files({}, a) == a


@given(layers, layers)
def test_every_value_comes_from_one_of_the_layers(one: dict[str, object], two: dict[str, object]) -> None:
    a, b = tree(one), tree(two)
    written = {*leaves(a), *leaves(b)}
    assert set(leaves(merge_files(a, b))) <= written


PLACES = {
    (): ("top", DeploySection),
    ("stages", "0"): ("stage", StageSection),
    ("platforms", "npu", "stages", "1"): ("stage", StageSection),
    ("connectors", "x", "extra"): ("extra", ExtraSection),
}


@given(st.sampled_from(sorted(PLACES)), st.from_regex(r"[a-z]{1,12}(_[a-z0-9]{1,8}){0,3}", fullmatch=True), leaf)
def test_an_unknown_key_never_passes(place: tuple[str, ...], name: str, value: int) -> None:
    scope, section = PLACES[place]
    if name in IGNORED[scope] or name in section.model_fields:
        return
    values: dict[str, object] = {name: value}
    for key in reversed(place):
        values = {key: values}
    layer = tree(values)
    assert drop_ignored(layer, "test") == ([], [])
    assert any(repr(name) in problem.message for problem in check_tree(layer, "test"))


def test_no_name_is_both_honoured_and_ignored() -> None:
    assert not IGNORED["top"].keys() & DeploySection.model_fields.keys()
    assert not IGNORED["stage"].keys() & StageSection.model_fields.keys()
    assert not IGNORED["extra"].keys() & ExtraSection.model_fields.keys()


def test_plain_keeps_the_null_that_means_never() -> None:
    assert plain(tree({"duplex_session": {"idle_ttl_s": None}, "stages": {"0": {"devices": None}}})) == {
        "duplex_session": {"idle_ttl_s": None},
        "stages": {"0": {}},
    }
