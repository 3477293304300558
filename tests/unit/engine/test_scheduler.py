import random

import pytest

from antiphon.core.errors import CapacityError, ConfigError, ContextLengthError, StateError
from antiphon.engine.block_manager import BlockManager
from antiphon.engine.block_table import BlockTable
from antiphon.engine.context_window import Cut
from antiphon.engine.prefix_hash import MediaSpan
from antiphon.engine.scheduler import Scheduler, SchedulerConfig
from antiphon.engine.sequence import Piece, Sequence, SequenceState

SIZE = 4
NONE = -1


class FakeDevice:
    """A Thinker whose cache entries are (token, position, all tokens before): launches at once, answers when told to.

    It reads every position a row attends to, so a shared, lost or overwritten block shows as a wrong entry.
    """

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.kv, self.host, self.drawn = {}, {}, {}
        self.queue = []
        self.cut = set()  # sequences whose entries no longer carry all that stands before them

    def launch(self):
        step = self.scheduler.schedule()
        for move in step.moves:
            for block, host in move.pairs:
                for offset in range(SIZE):
                    if move.to_host:
                        self.host[host, offset] = self.kv.get(block * SIZE + offset)
                    else:
                        self.kv[block * SIZE + offset] = self.host[host, offset]
        assert len({id(row.seq) for row in step.rows}) == len(step.rows)
        for row in step.rows:
            self.forward(row)
        return step

    def forward(self, row):
        seq = row.seq
        known = list(seq.tokens)
        if row.is_decode:
            known = self.drawn[seq]
        end = row.start + row.num_tokens
        for position in range(row.start, end):
            self.kv[self.index(seq, position)] = (known[position], position, hash(tuple(known[:position])))
        for position in range(end):
            token, at, before = self.kv[self.index(seq, position)]
            assert (token, at) == (known[position], position), (seq.seq_id, position)
            assert seq in self.cut or before == hash(tuple(known[:position]))
        if row.draws:
            assert end == len(known)
            self.drawn[seq] = [*known, draw(known, row.draw_step)]
        self.queue.append((row, self.drawn[seq][-1] if row.draws else NONE))

    def index(self, seq, position):
        return self.scheduler.blocks.kv_index(seq.table, position)

    def collect(self):
        row, token = self.queue.pop(0)
        return row, token, self.scheduler.commit(row, () if token == NONE else (token,))

    def carry_out(self, seq, plan):
        self.cut.add(seq)
        read = [self.kv[source] for source in plan.sources]
        for (token, position, before), shift, target in zip(read, plan.shifts, plan.destinations, strict=True):
            self.kv[target] = (token, position + shift, before)

    def run(self, num_steps=200):
        """Launch and collect one step behind, ending turns by their length; returns the ids drawn by sequence."""
        out = {}
        for _ in range(num_steps):
            is_idle = not self.queue
            step = self.launch()
            if is_idle and not step.rows:
                return out
            while len(self.queue) > len(step.rows) or (self.queue and not step.rows):
                self.take(out)
        raise AssertionError("does not come to rest")

    def take(self, out):
        row, token, is_valid = self.collect()
        if is_valid and token != NONE:
            out.setdefault(row.seq.seq_id, []).append(token)
            if row.seq.draws_left <= 0 and row.seq.num_draws_in_flight == 0:
                self.scheduler.book.end_turn(row.seq.seq_id)


def draw(ids, step):
    return hash((tuple(ids), step)) % 50 + 100


def expected(ids, num_draws):
    ids, start = list(ids), len(ids)
    for step in range(num_draws):
        ids.append(draw(ids, step))
    return ids[start:]


def build(num_blocks=16, *, host=0, cache=False, **limits):
    limits = {"max_num_seqs": 4, "max_batched_tokens": 8, "max_model_len": 32, **limits}
    blocks = BlockManager(num_blocks, block_size=SIZE, num_host_blocks=host, use_prefix_cache=cache)
    scheduler = Scheduler(SchedulerConfig(**limits), blocks)
    return scheduler, scheduler.book, FakeDevice(scheduler)


def chat(seq_id, ids, num_draws=3, **piece):
    return Sequence(seq_id, Piece(ids=tuple(ids), max_draws=num_draws, **piece))


def session(seq_id, ids, num_draws=0, **piece):
    return Sequence(seq_id, Piece(ids=tuple(ids), max_draws=num_draws, **piece), is_resumable=True)


def test_a_request_is_prefilled_in_chunks_and_decoded_one_step_ahead():
    scheduler, book, device = build()
    book.admit(chat("a", range(11), 3))
    rows = [device.launch().rows[0] for _ in range(2)]
    assert [(row.start, row.num_tokens, row.draws) for row in rows] == [(0, 8, False), (8, 3, True)]
    assert device.launch().rows == ()  # two rows are in flight
    device.collect()
    (row,) = device.launch().decodes
    assert (row.start, row.is_decode, row.draw_step) == (11, True, 1)
    assert len(row.seq.tokens) == 11  # the host has seen no token yet
    assert device.run() == {"a": expected(range(11), 3)}
    assert scheduler.snapshot()["blocks_used"] == 0


def test_decoding_goes_on_beside_a_long_prefill_which_progresses_too():
    _, book, device = build(max_tokens_beside_decode=2)
    book.admit(chat("a", [1], 8))
    device.launch()
    book.admit(chat("b", range(12), 1))
    for start in (0, 2, 4):
        step = device.launch()
        assert [row.seq.seq_id for row in step.decodes] == ["a"]
        assert [(row.start, row.num_tokens) for row in step.prefills] == [(start, 2)]
        device.collect()
        if start:
            device.collect()


def test_the_earliest_deadline_of_the_most_urgent_class_goes_first():
    _, book, device = build(max_num_seqs=1)
    book.admit(chat("late", [1], 1, deadline_s=9.0))
    book.admit(chat("early", [2], 1, deadline_s=1.0))
    book.admit(chat("urgent", [3], 1, deadline_s=20.0, priority=-1))
    assert list(device.run()) == ["urgent", "early", "late"]


def test_a_turn_that_draws_again_continues_positions_and_draw_steps():
    _, book, device = build()
    book.admit(session("a", [1, 2, 3], 2))
    first = device.run()["a"]
    seq = book.get("a")
    assert seq.state is SequenceState.PARKED
    book.extend("a", Piece(ids=(7, 8), max_draws=1, epoch=4))
    step = device.launch()
    assert [(row.start, row.num_tokens, row.draw_step, row.epoch) for row in step.rows] == [(4, 3, 2, 4)]
    assert seq.tokens == [1, 2, 3, *first, 7, 8]


def test_pieces_join_a_turn_that_only_computes_and_wait_for_one_that_draws():
    _, book, device = build(max_pieces=3)
    book.admit(session("a", [1, 2]))
    book.extend("a", Piece(ids=(3,)))
    assert [row.num_tokens for row in device.launch().rows] == [3]
    book.extend("a", Piece(ids=(4,) * 9, max_draws=1))  # joins while the row is in flight, and needs new blocks
    for ids in ((5,), (6,), (7,)):
        book.extend("a", Piece(ids=ids, max_draws=int(ids == (6,))))
    with pytest.raises(CapacityError, match="3 pieces wait"):
        book.extend("a", Piece(ids=(8,)))
    device.run()
    seq = book.get("a")
    assert [token for token in seq.tokens if token < 100] == [1, 2, 3, *[4] * 9, 5, 6, 7]
    assert seq.num_drawn == 2


def test_parking_breaks_a_turn_off_and_drops_what_is_in_flight():
    _, book, device = build()
    book.admit(session("a", [1, 2, 3], 9))
    device.launch()
    device.launch()
    device.collect()
    book.park("a")
    book.extend("a", Piece(ids=(9,), max_draws=1))
    assert device.launch().rows == ()  # not before its last row is back
    assert device.collect()[2] is False
    (row,) = device.launch().rows
    assert (row.start, row.num_tokens, row.is_decode) == (3, 2, False)  # the token drawn first is computed with it
    book.park("a")
    book.park("a")  # again: nothing to break off
    assert not book.get("a").is_open


def test_a_stop_id_that_is_not_kept_leaves_the_context_without_it():
    scheduler, book, device = build()
    book.admit(session("a", [1, 2, 3], 9))
    device.launch()
    device.launch()
    row, _ = device.queue.pop(0)
    assert scheduler.commit(row, ())
    book.end_turn("a")
    assert not device.collect()[2]
    assert book.get("a").tokens == [1, 2, 3]
    assert book.get("a").num_drawn == 1


def test_what_ended_gives_its_blocks_back_only_when_nothing_of_it_is_in_flight():
    scheduler, book, device = build(max_num_seqs=1)
    book.admit(chat("a", [1, 2, 3]))
    device.launch()
    assert book.abort("a")
    assert not book.abort("a")
    book.admit(chat("a", [4], 1, epoch=1))
    assert device.launch().rows == ()  # the seat is not free either
    assert scheduler.snapshot()["blocks_used"] == 1
    assert not device.collect()[2]
    assert device.run() == {"a": expected([4], 1)}


def test_a_committed_row_is_not_committed_again():
    scheduler, book, device = build()
    book.admit(chat("a", range(16)))
    first, second = device.launch().rows[0], device.launch().rows[0]
    with pytest.raises(StateError, match="once each"):
        scheduler.commit(second)
    device.collect()
    device.collect()
    with pytest.raises(StateError, match="once each"):
        scheduler.commit(first)


def test_closing_the_input_finishes_now_or_at_the_end_of_the_last_turn():
    _, book, device = build()
    book.admit(session("a", [1], 1))
    book.admit(session("b", [1]))
    book.extend("a", Piece(ids=(2,), max_draws=1))
    book.close_input("a")
    device.run()
    book.close_input("b")
    for name in ("a", "b"):
        with pytest.raises(StateError, match="no live sequence"):
            book.get(name)


def test_what_cannot_fit_is_refused_with_numbers():
    _, book, _ = build(max_waiting=2)
    with pytest.raises(ContextLengthError, match="need 33 positions, the first drawn included, of 32"):
        book.admit(chat("a", range(32)))
    with pytest.raises(StateError, match="at least one token"):
        book.admit(chat("a", []))
    book.admit(session("a", range(20), 8))
    with pytest.raises(ContextLengthError, match="5 tokens after up to 28"):
        book.extend("a", Piece(ids=(1,) * 5))
    with pytest.raises(StateError, match="lives already"):
        book.admit(chat("a", [1]))
    book.admit(chat("b", [1]))
    with pytest.raises(CapacityError, match="2 sequences wait"):
        book.admit(chat("c", [1]))


def test_misuse_is_refused_by_name():
    _, book, _ = build()
    book.admit(chat("a", [1]))
    with pytest.raises(StateError, match="takes no more input"):
        book.extend("a", Piece(ids=(1,)))
    with pytest.raises(StateError, match="not resumable"):
        book.park("a")
    with pytest.raises(StateError, match="a is waiting: it has no turn"):
        book.end_turn("a")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_pieces": 0}, "at least 1"),
        ({"max_batched_tokens": 4}, "prefill starves"),
        ({"max_model_len": 65}, "give it 17"),
    ],
)
def test_impossible_limits_are_refused(limits, message):
    with pytest.raises(ConfigError, match=message):
        build(**limits)


def test_a_common_prefix_is_computed_once():
    scheduler, book, device = build(cache=True)
    prompt = list(range(10))
    book.admit(chat("a", prompt, 2))
    device.run()
    seq = chat("b", [*prompt, 50], 2)
    book.admit(seq)
    assert [(row.start, row.num_tokens) for row in device.launch().prefills] == [(8, 3)]
    assert seq.num_cached_tokens == scheduler.num_hit_tokens == 8
    assert device.run()["b"] == expected([*prompt, 50], 2)


def test_without_blocks_the_latest_deadline_is_preempted_and_computed_anew():
    scheduler, book, device = build(4, max_model_len=16)
    book.admit(chat("b", range(20, 25), 8, deadline_s=2.0))
    device.launch()
    book.admit(chat("a", range(6), 8, deadline_s=1.0))
    out = device.run()
    assert out == {"a": expected(range(6), 8), "b": expected(range(20, 25), 8)}
    assert scheduler.snapshot()["preemptions"] > 0
    assert scheduler.snapshot()["blocks_used"] == 0


def test_an_urgent_class_takes_a_seat_and_leaves_the_blocks():
    _, book, device = build(max_num_seqs=1)
    book.admit(chat("a", range(6), 8))
    device.launch()
    book.admit(chat("b", [1], 2, priority=-1))
    device.launch()
    device.collect()
    assert device.launch().rows == ()  # its second row is in flight; it gets no other
    device.collect()
    step = device.launch()
    assert [seq.seq_id for seq in step.preempted] == ["a"]
    assert [row.seq.seq_id for row in step.rows] == ["b"]
    assert book.get("a").num_computed == 7
    out = device.run()
    assert out["b"] == expected([1], 2)
    assert out["a"] == expected(range(6), 8)[2:]


def test_a_sequence_held_for_one_that_could_not_use_the_room_goes_on():
    _, book, device = build(max_num_seqs=1)
    book.admit(chat("a", range(6), 8, priority=1))
    device.launch()
    book.admit(session("b", [1], 2))
    device.launch()
    device.collect()
    device.collect()
    book.get("b").in_flight.append(None)  # b cannot start now
    assert [row.seq.seq_id for row in device.launch().rows] == ["a"]


def test_an_idle_session_is_spilled_first_and_comes_back_as_it_was():
    scheduler, book, device = build(5, host=8, max_model_len=20)
    book.admit(session("s", range(9)))
    device.run()
    book.admit(chat("a", range(10, 24), 3))
    moves = device.launch().moves
    assert [(move.to_host, len(move.pairs)) for move in moves] == [(True, 3)]
    assert book.get("s").state is SequenceState.SPILLED
    device.run()
    book.extend("s", Piece(ids=(9,), max_draws=2))
    step = device.launch()
    assert [(move.to_host, len(move.pairs)) for move in step.moves] == [(False, 3)]
    assert [(row.start, row.num_tokens) for row in step.rows] == [(9, 1)]
    assert device.run()["s"] == expected(range(10), 2)
    assert scheduler.snapshot()["host_blocks_used"] == 0


def test_without_host_memory_an_idle_session_is_computed_anew():
    _, book, device = build(5, max_model_len=20)
    book.admit(session("s", range(9)))
    device.run()
    book.admit(chat("a", range(10, 24), 3))
    device.run()
    assert (book.get("s").state, book.get("s").num_computed) == (SequenceState.PARKED, 0)
    book.extend("s", Piece(ids=(9,), max_draws=2))
    assert device.run()["s"] == expected(range(10), 2)


def cut_of(length, kept, tail_start, refeed=()):
    new_length = kept + len(refeed) + length - tail_start
    return Cut((0, kept), tuple(refeed), (tail_start, length), new_length, ())


def test_a_cut_moves_the_tail_into_fresh_blocks_and_turns_its_keys():
    scheduler, book, device = build(cache=True)
    book.admit(session("s", range(15), media=(MediaSpan(0, 2, b"x"), MediaSpan(12, 14, b"y"))))
    device.run()
    seq = book.get("s")
    plan = scheduler.cut("s", cut_of(15, 5, 9))
    assert set(plan.sources).isdisjoint(plan.destinations)
    assert plan.shifts == (0,) + (-4,) * 6
    device.carry_out(seq, plan)
    assert seq.tokens == [*range(5), *range(9, 15)]
    assert [(span.start, span.end) for span in seq.media] == [(0, 2), (8, 10)]
    book.extend("s", Piece(ids=(40,), max_draws=2))
    assert [(row.start, row.num_tokens) for row in device.launch().rows] == [(11, 1)]
    device.run()
    assert len(seq.table.hashes) == 1  # what saw dropped tokens is not for others


def test_words_that_take_the_place_of_units_are_computed_in_their_gap():
    scheduler, book, device = build()
    book.admit(session("s", range(15)))
    device.run()
    for refeed in ((60, 61), (62, 63, 64)):  # the second cut replaces a gap that was not computed yet
        length = len(book.get("s").tokens)
        device.carry_out(book.get("s"), scheduler.cut("s", cut_of(length, 3, 8, refeed)))
    book.extend("s", Piece(ids=(40,), max_draws=1))
    assert [(row.start, row.num_tokens) for row in device.launch().rows] == [(3, 3)]
    assert device.launch().rows == ()  # what follows attends to it
    device.collect()
    assert [(row.start, row.num_tokens) for row in device.launch().rows] == [(10, 1)]
    assert book.get("s").tokens == [0, 1, 2, 62, 63, 64, *range(11, 15), 40]


def test_a_gap_longer_than_the_budget_takes_several_rows():
    scheduler, book, device = build(max_batched_tokens=5)
    book.admit(session("s", range(15)))
    device.run()
    scheduler.cut("s", cut_of(15, 3, 10, range(50, 57)))
    book.extend("s", Piece(ids=(40,)))
    rows = []
    while not rows or rows[-1].start != 15:
        rows += scheduler.schedule().rows
        assert scheduler.schedule().rows == ()
        scheduler.commit(rows[-1])
    assert [(row.start, row.num_tokens) for row in rows] == [(3, 5), (8, 2), (15, 1)]
    assert book.get("s").state is SequenceState.PARKED


def test_a_cut_of_what_is_not_computed_only_changes_the_tokens():
    scheduler, book, device = build()
    book.admit(session("s", range(6)))
    device.run()
    book.extend("s", Piece(ids=tuple(range(6, 14))))
    book.park("s")
    assert scheduler.cut("s", cut_of(14, 8, 10)).sources == ()
    plan = scheduler.cut("s", cut_of(12, 5, 8))
    assert len(plan.sources) == 1  # the prefix's share of a block others might hold
    device.carry_out(book.get("s"), plan)
    book.extend("s", Piece(ids=(40,)))
    assert [(row.start, row.num_tokens) for row in device.launch().rows] == [(5, 5)]


def test_a_cut_without_room_or_of_a_spilled_session_is_computed_anew():
    scheduler, book, device = build(5, host=8, max_model_len=20)
    book.admit(session("s", range(16)))
    device.run()
    assert scheduler.cut("s", cut_of(16, 1, 2)).sources == ()
    assert (book.get("s").num_computed, scheduler.num_rebuilt) == (0, 1)
    book.extend("s", Piece(ids=(9,)))
    device.run()
    book.admit(chat("a", range(10, 24), 1))
    device.run()
    assert book.get("s").state is SequenceState.SPILLED
    scheduler.cut("s", cut_of(16, 1, 2))
    assert (book.get("s").state, scheduler.num_rebuilt) == (SequenceState.PARKED, 2)
    book.extend("s", Piece(ids=(9,), max_draws=1))
    assert device.run()["s"] == [draw(book.get("s").tokens[:-1], 0)]


def test_a_cut_makes_room_with_the_caches_of_other_parked_sessions():
    scheduler, book, device = build(host=8)
    for name in ("a", "s", "b"):
        book.admit(session(name, range(8)))
    device.run()
    assert scheduler.blocks.grow(BlockTable(), scheduler.blocks.num_free * SIZE)  # whoever else holds the rest
    plan = scheduler.cut("s", cut_of(8, 4, 6))
    assert [move.to_host for move in plan.moves] == [True]
    states = [book.get(name).state for name in ("a", "s", "b")]
    assert states == [SequenceState.SPILLED, SequenceState.PARKED, SequenceState.PARKED]
    assert (book.get("s").num_computed, scheduler.num_rebuilt) == (6, 0)
    assert device.launch().moves == ()  # they were told once


def test_a_cut_of_another_context_is_refused():
    scheduler, book, device = build()
    book.admit(session("s", range(10), media=(MediaSpan(3, 6, b"x"),)))
    device.launch()
    with pytest.raises(StateError, match="1 rows in flight"):
        scheduler.cut("s", cut_of(10, 2, 4))
    device.run()
    with pytest.raises(StateError, match="context of 10"):
        scheduler.cut("s", cut_of(11, 2, 4))
    for kept, tail_start in ((2, 4), (4, 8)):
        with pytest.raises(StateError, match="goes through media"):
            scheduler.cut("s", cut_of(10, kept, tail_start))


@pytest.mark.parametrize("seed", range(12))
def test_random_requests_draw_what_they_would_alone_and_leave_nothing(seed):
    chance = random.Random(seed)
    scheduler, book, device = build(
        chance.choice([10, 14, 40]), host=chance.choice([0, 6, 30]), cache=bool(seed % 2), max_in_flight=1 + seed % 3
    )
    live, drawn, ended = {}, {}, set()
    turns = {}
    for number in range(1200):
        action = chance.random()
        if action < 0.15 and len(live) < 9:
            name = f"{number}"
            ids = [chance.randrange(3) for _ in range(chance.randrange(1, 14))]
            make = chance.choice([chat, session])
            seq = make(name, ids, chance.randrange(1, 6), deadline_s=chance.random(), priority=chance.randrange(2))
            book.admit(seq)
            live[name] = seq
        elif action < 0.2 and live:
            seq = chance.choice(list(live.values()))
            book.abort(seq.seq_id)
            ended.add(seq.seq_id)
            del live[seq.seq_id]
        elif action < 0.35:
            idle = [seq for seq in live.values() if seq.is_resumable and not seq.is_open]
            if idle:
                seq = chance.choice(idle)
                ids = tuple(chance.randrange(3) for _ in range(chance.randrange(1, 4)))
                if len(seq.tokens) < 24:
                    piece = Piece(ids=ids, max_draws=chance.randrange(3), deadline_s=chance.random())
                    book.extend(seq.seq_id, piece)
                elif not seq.in_flight:
                    length = len(seq.tokens)
                    cut = cut_of(length, chance.randrange(9), chance.randrange(10, length), [5] * chance.randrange(4))
                    device.carry_out(seq, scheduler.cut(seq.seq_id, cut))
        elif action < 0.38 and live:
            seq = chance.choice(list(live.values()))
            if seq.is_resumable and chance.random() < 0.3:
                book.close_input(seq.seq_id)
            elif seq.is_resumable:
                book.park(seq.seq_id)
        elif action < 0.7:
            device.launch()
        elif device.queue:
            device.take(turns)
        for name in [name for name, seq in live.items() if seq.is_ended]:
            assert name not in ended
            ended.add(name)
            seq = live.pop(name)
            if not seq.is_resumable:
                prompt = len(seq.tokens) - seq.num_drawn
                drawn[name] = (seq.tokens[:prompt], seq.tokens[prompt:])
        check(scheduler, live)
    device.run(3000)
    assert not any(seq.is_open for seq in live.values())  # all got on, whatever stood in their way
    for name in [name for name, seq in live.items() if not seq.is_ended]:
        book.abort(name)
    assert len(drawn) >= 10
    for ids, codes in drawn.values():
        assert codes == expected(ids, len(codes))
    gauges = scheduler.snapshot()
    assert gauges["blocks_used"] == gauges["host_blocks_used"] == gauges["num_settling"] == 0


def check(scheduler, live):
    book, blocks = scheduler.book, scheduler.blocks
    holders = {*book.running, *book.queue, *book.idle, *book.settling}
    held = [block for seq in holders for block in seq.table.blocks]
    assert all(blocks._refs[block] == held.count(block) for block in range(blocks.num_blocks))
    assert blocks.num_used == len(set(held))
    host = [block for seq in holders for block in seq.table.host_blocks]
    assert all(blocks._host_refs[block] == host.count(block) for block in range(blocks.num_host_blocks))
    places = [*book.running, *book.queue, *book.idle]
    assert len(places) == len(set(places))
    assert set(places) == set(live.values())
    assert len(book.running) + len(book.settling) <= scheduler.config.max_num_seqs


def test_1000_aborts_at_every_point_leave_nothing():
    chance = random.Random(5)
    scheduler, book, device = build(12, host=4, cache=True)
    for number in range(1000):
        book.admit(chance.choice([chat, session])(f"{number}", [1] * chance.randrange(1, 20), chance.randrange(1, 9)))
        for _ in range(chance.randrange(6)):
            device.launch()
            if device.queue and chance.random() < 0.7:
                device.take({})
        book.abort(f"{number}")
    device.run()
    gauges = scheduler.snapshot()
    assert gauges["blocks_used"] == gauges["host_blocks_used"] == gauges["num_settling"] == 0
