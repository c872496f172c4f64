"""The judge client on a real wire: what fails is retried to a value or says why it is none."""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket

import pytest
from pydantic import BaseModel, ConfigDict, Field

from botgrpo.benchmarks.stand_in import completion, send
from botgrpo.rewards.judges.budget import NoVerdict, Usage
from botgrpo.rewards.judges.client import JudgeClient, Session
from botgrpo.rewards.judges.images import data_url
from botgrpo.rewards.judges.question import Question, Reply, Unreadable, read_expected, read_form
from botgrpo.rewards.judges.settings import Settings, settings
from botgrpo.rewards.judges.wire import _retry_after
from botgrpo.sandbox.attempt import attempting
from botgrpo.sandbox.errors import ConfigError
from judge_server import FAULTS, TEN, JudgeServer


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    react: bool = True
    remark: str
    lines: list[int]
    score: int = Field(ge=0, le=10)


QUICK = {"cache": False, "timeout_s": 30.0, "backoff_s": 0.01}


def say(request) -> str:
    """The number in the question is the right score."""
    number = int(request["messages"][1]["content"].split("#")[1])
    return json.dumps({"react": True, "remark": "right", "lines": [], "score": number})


def client(server, **options) -> JudgeClient:
    return JudgeClient(settings("test", server.url, "stand-in", {**QUICK, **options}))


def ask(judge: JudgeClient, numbers=(7,), form=Verdict) -> list:
    """Score or `NoVerdict` of each question, all at once."""

    async def one(session: Session, index: int, number: int):
        question = Question("Judge.", (f"question {index}, score #{number}",))
        try:
            return (await session.ask(question, form, Usage())).score
        except NoVerdict as error:
            return error

    async def run():
        async with judge.session() as session:
            return await asyncio.gather(*(one(session, i, n) for i, n in enumerate(numbers)))

    return asyncio.run(run())


@pytest.mark.parametrize("fault", TEN)
def test_each_fault_is_retried_to_the_right_value(fault):
    options = {"timeout_s": 1.0} if fault == "slow" else {}
    with JudgeServer(say, lambda call: fault if call == 0 else None, slow_s=60) as server:
        assert ask(client(server, **options)) == [7]
        assert server.faults == [fault]
        assert len(server.requests) == 2 or fault == "slow"  # a busy machine is slow by itself


@pytest.mark.parametrize("fault", TEN)
def test_a_fault_that_stays_is_no_verdict_and_says_what_it_was(fault):
    with JudgeServer(say, lambda call: fault, slow_s=60) as server:
        options = {"timeout_s": 0.1} if fault == "slow" else {}
        (found,) = ask(client(server, retries=1, **options))
        assert isinstance(found, NoVerdict)
        # an answer that cannot be read is asked for once more, a failed call `retries` times
        assert len(server.requests) == 2
    unread = {"malformed", "schema", "length", "whitespace"}
    assert found.verdict == ("unreadable" if fault in unread else "infra_error")
    said = {
        "429": "HTTP 429", "500": "HTTP 500", "slow": "within 0.1 s", "cut": "broke",
        "refused": "broke", "empty": "no chat completion", "malformed": "not one JSON object",
        "schema": "score", "length": "length limit", "whitespace": "length limit",
    }  # fmt: skip
    assert said[fault] in str(found)


def test_with_a_fifth_of_the_calls_failing_in_ten_ways_no_value_is_wrong():
    dice = random.Random(4)
    plan = [dice.choice(TEN) if dice.random() < 0.2 else None for _ in range(5000)]
    numbers = [dice.randrange(10) for _ in range(400)]  # never the 10 that the faults say
    with JudgeServer(say, plan.__getitem__, slow_s=60) as server:
        found = ask(client(server, concurrency=50, timeout_s=1.0), numbers)
        assert set(server.faults) == set(FAULTS)
    unscored = [f for f in found if isinstance(f, NoVerdict)]
    assert [f for f in found if not isinstance(f, NoVerdict)] == [
        n for n, f in zip(numbers, found, strict=True) if not isinstance(f, NoVerdict)
    ]
    assert len(unscored) < 40
    assert all(str(f) for f in unscored)


def test_500_calls_at_once_lose_nothing():
    numbers = [n % 11 for n in range(500)]
    with JudgeServer(say) as server:
        assert ask(client(server, concurrency=500, timeout_s=60.0), numbers) == numbers
        assert len(server.requests) == 500


def test_no_more_calls_run_at_once_than_allowed_over_all_sessions():
    running = most = 0

    class Counting(JudgeServer):
        async def respond(self, request, headers, writer):
            nonlocal running, most
            running, most = running + 1, max(most, running + 1)
            await asyncio.sleep(0.01)
            running -= 1
            return await super().respond(request, headers, writer)

    async def batch(judge):
        async with judge.session() as session:
            question = [Question("Judge.", (f"#{n}",)) for n in range(10)]
            await asyncio.gather(*(session.ask(q, Verdict, Usage()) for q in question))

    async def both(judge):
        await asyncio.gather(batch(judge), batch(judge))

    with Counting(say) as server:
        asyncio.run(both(client(server, concurrency=3)))
    assert most == 3 and len(server.requests) == 20


def test_a_port_that_nobody_listens_on_is_no_verdict():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        judge = JudgeClient(settings("test", url, "m", {**QUICK, "retries": 2}))
        (found,) = ask(judge)
    assert found.verdict == "infra_error" and f"no connection to {url}, 3 times" in str(found)
    assert judge.budget.calls == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_final_and_shows_what_the_endpoint_says(status):
    class Refusing(JudgeServer):
        async def respond(self, request, headers, writer):
            self.requests.append(request)
            await send(writer, status, b"the model   is\nunknown")
            return True

    with Refusing(say) as server:
        (found,) = ask(client(server))
        assert len(server.requests) == 1
    assert found.verdict == "infra_error"
    assert f"HTTP {status}" in str(found) and "the model is unknown" in str(found)


def test_an_answer_without_end_is_cut():
    class Endless(JudgeServer):
        async def respond(self, request, headers, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")
                await writer.drain()

    with Endless(say) as server:
        (found,) = ask(client(server, retries=0, timeout_s=60.0))
    assert "exceeds 4194304 bytes" in str(found)


def pauses(tries: int, *, asked_s=None, seed=0, key="k", **options) -> float:
    made = Settings(url="http://h/v1", model="m", seed=seed, **options)
    return Session(made, None, None, None, None)._pause_s(key, tries, asked_s, "HTTP 429")


def test_pauses_double_with_jitter_from_the_seed_and_the_question():
    waits = [pauses(n, backoff_s=1.0) for n in (1, 2, 3, 4)]
    assert all(2 ** (n - 1) * 0.5 <= w <= 2 ** (n - 1) * 1.5 for n, w in enumerate(waits, 1))
    assert waits == [pauses(n, backoff_s=1.0) for n in (1, 2, 3, 4)]
    assert len({pauses(1), pauses(1, seed=1), pauses(1, key="other")}) == 3
    assert pauses(5000, longest_pause_s=10.0) <= 15.0


def test_what_the_endpoint_asks_to_wait_is_kept_or_given_up():
    assert pauses(1, asked_s=7.0, backoff_s=0.01) == 7.0
    with pytest.raises(NoVerdict, match="asks to wait 61 s; longest_pause_s is 60"):
        pauses(1, asked_s=61.0)
    assert _retry_after("2.5") == 2.5 and _retry_after("-3") == 0.0
    assert _retry_after("Mon, 01 Jan 2001 00:00:00 GMT") == 0.0
    assert 3e9 < _retry_after("Fri, 01 Jan 2200 00:00:00 GMT") < 6e9
    assert (
        _retry_after("soon") is None and _retry_after("nan") is None and _retry_after(None) is None
    )


def test_a_spent_budget_is_no_verdict():
    with JudgeServer(say) as server:
        found = ask(client(server, max_calls=3), [1, 2, 3, 4, 5])
        assert sum(isinstance(f, NoVerdict) for f in found) == 2
        last = next(f for f in found if isinstance(f, NoVerdict))
        assert last.verdict == "budget" and "max_calls = 3" in str(last)
        # 120 tokens a call; calls under way are let finish, so one at a time
        judge = client(server, max_total_tokens=240, concurrency=1)
        assert [isinstance(f, NoVerdict) for f in ask(judge, [1, 2, 3])] == [False, False, True]
        judge = client(server, max_cost=0.5, price_in=1000.0, price_out=5000.0, concurrency=1)
        found = ask(judge, [1, 2, 3, 4])  # 100 * .001 + 20 * .005 = .2 a call
        assert [isinstance(f, NoVerdict) for f in found] == [False, False, False, True]
        assert judge.budget.cost == pytest.approx(0.6)


def test_retries_count_in_the_budget():
    with JudgeServer(say, lambda call: "500") as server:
        (found,) = ask(client(server, max_calls=2))
        assert found.verdict == "budget" and len(server.requests) == 2


def test_usage_counts_calls_retries_tokens_and_money():
    async def run(judge):
        usage = Usage()
        async with judge.session() as session:
            await session.ask(Question("Judge.", ("#1",)), Verdict, usage)
        return usage.metrics()

    with JudgeServer(say, lambda call: "schema" if call == 0 else None) as server:
        judge = client(server, price_in=10.0, price_out=20.0)
        metrics = asyncio.run(run(judge))
    assert metrics == {
        "judge/calls": 2.0, "judge/retries": 1.0, "judge/cache_hits": 0.0,
        "judge/tokens_in": 200.0, "judge/tokens_out": 40.0, "judge/cost": pytest.approx(0.0028),
    }  # fmt: skip


def test_read_answers_come_back_from_the_cache_in_another_process_too(tmp_path):
    with JudgeServer(say) as server:
        numbers = list(range(10))
        assert ask(client(server, cache=str(tmp_path)), numbers) == numbers
        assert ask(client(server, cache=str(tmp_path)), numbers) == numbers
        assert len(server.requests) == 10
        assert ask(client(server, cache=False), [1]) == [1]
        assert len(server.requests) == 11
        url = server.url
    # the server is gone, the answers are not
    offline = JudgeClient(settings("test", url, "stand-in", {**QUICK, "cache": str(tmp_path)}))
    assert ask(offline, numbers) == numbers and offline.budget.calls == 0


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"temperature": 0.5}, {"max_tokens": 9}, {"extra": {"top_p": 1}}]
)
def test_another_model_or_sampling_is_another_key(tmp_path, change):
    with JudgeServer(say) as server:
        ask(client(server, cache=str(tmp_path)))
        options = {**QUICK, "cache": str(tmp_path), **change}
        model = options.pop("model", "stand-in")
        ask(JudgeClient(settings("test", server.url, model, options)))
        assert len(server.requests) == 2


def test_another_attempt_asks_again_and_finds_its_own_answer(tmp_path):
    with JudgeServer(say) as server:
        for _ in range(2):
            for number in range(3):
                with attempting(number):
                    ask(client(server, cache=str(tmp_path)))
        assert len(server.requests) == 3


def test_what_could_not_be_read_is_not_kept_and_a_damaged_file_is_a_miss(tmp_path):
    with JudgeServer(say, lambda call: "schema" if call < 2 else None) as server:
        (found,) = ask(client(server, cache=str(tmp_path)))
        assert isinstance(found, NoVerdict) and not list(tmp_path.rglob("*.json"))
        assert ask(client(server, cache=str(tmp_path))) == [7]
        (kept,) = tmp_path.rglob("*.json")
        good = kept.read_bytes()
        for bad in (b"", good[: len(good) // 2], b"\xff", b"[]", b'{"content": 3}'):
            kept.write_bytes(bad)
            assert ask(client(server, cache=str(tmp_path))) == [7]
            assert kept.read_bytes() == good


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_asked(tmp_path):
    (tmp_path / "file").write_text("")
    made = settings("test", "http://h/v1", "m", {"cache": str(tmp_path / "file" / "below")})
    with pytest.raises(ConfigError, match="cache=False"):
        JudgeClient(made)


def test_a_full_disk_costs_the_cache_and_no_verdict(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("botgrpo.rewards.judges.cache.os.replace", full)
    with JudgeServer(say) as server:
        assert ask(client(server, cache=str(tmp_path))) == [7]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("structured", "field"),
    [("response_format", "response_format"), ("structured_outputs", "structured_outputs")],
)
def test_the_schema_goes_into_the_field_that_the_server_knows(structured, field):
    with JudgeServer(say) as server:
        ask(client(server, structured=structured))
        (sent,) = server.requests
    schema = (
        sent[field]["json_schema"]["schema"] if field == "response_format" else sent[field]["json"]
    )
    assert schema["properties"]["score"]["maximum"] == 10
    # what decides comes last, also where the server decodes by the schema
    assert list(schema["properties"]) == ["react", "remark", "lines", "score"]
    assert {"response_format", "structured_outputs"} & set(sent) == {field}


def test_extra_fields_go_along_and_none_takes_one_away():
    with JudgeServer(say) as server:
        extra = {"chat_template_kwargs": {"enable_thinking": False}, "max_tokens": None}
        assert ask(client(server, structured="none", extra=extra)) == [7]
        (sent,) = server.requests
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert "max_tokens" not in sent and "response_format" not in sent


PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
JPEG = b"\xff\xd8\xff\xe0" + bytes(8)


def test_images_are_parts_with_the_type_that_their_bytes_tell():
    async def run(judge):
        async with judge.session() as session:
            question = Question("Judge.", ("Image A:", PNG, "Image B:", JPEG, "#3"))
            return await session.ask(question, Verdict, Usage())

    def pictures(request):
        return json.dumps({"remark": "", "lines": [], "score": 3})

    with JudgeServer(pictures) as server:
        assert asyncio.run(run(client(server))).score == 3
        (sent,) = server.requests
    parts = sent["messages"][1]["content"]
    assert [p["type"] for p in parts] == ["text", "image_url", "text", "image_url", "text"]
    urls = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
    assert urls[0].startswith("data:image/png;base64,iVBORw0KGgo")
    assert urls[1].startswith("data:image/jpeg;base64,/9j/4")
    assert data_url(b"RIFF\0\0\0\0WEBPVP8 ").startswith("data:image/webp")
    assert data_url(b"GIF89a....").startswith("data:image/gif")
    with pytest.raises(ConfigError, match="allowed: PNG"):
        data_url(b"<svg onload=alert(1)>")


@pytest.mark.parametrize(
    "content",
    [
        '{"remark": "", "lines": [], "score": 7}',
        ' \n{"remark": "", "lines": [], "score": 7}\n',
        '```json\n{"remark": "", "lines": [], "score": 7}\n```',
        '<think>is it {"score": 3}?</think>\n{"remark": "", "lines": [], "score": 7}',
    ],
)
def test_one_object_alone_is_read(content):
    assert read_form(Reply(content), Verdict).score == 7


@pytest.mark.parametrize(
    "content",
    [
        "",
        "7",
        "null",
        '[{"remark": "", "lines": [], "score": 7}]',
        'Sure: {"remark": "", "lines": [], "score": 7}',
        '{"remark": "", "lines": [], "score": 7} {"score": 1}',
        '{"remark": "", "lines": [], "score": 7, "score": 1}',
        '{"remark": "", "lines": [], "score": 7.5}',
        '{"remark": "", "lines": [], "score": "7"}',
        '{"remark": "", "lines": [], "score": true}',
        '{"remark": "", "lines": [], "score": 1e999}',
        '{"remark": "", "lines": [], "score": NaN}',
        '{"remark": "", "lines": [], "score": -1}',
        '{"remark": "", "lines": [], "score": 11}',
        '{"remark": "", "lines": []}',
        '{"remark": "", "lines": [], "score": 7, "extra": 1}',
        '{"remark": "", "lines": {}, "score": 7}',
        '<think>never ends {"remark": "", "lines": [], "score": 7}',
        "[" * 100_000,
        '{"remark": "", "lines": [], "score": ' + "9" * 10_000 + "}",
    ],
)
def test_anything_else_is_unreadable(content):
    with pytest.raises(Unreadable) as raised:
        read_form(Reply(content), Verdict)
    assert len(str(raised.value)) < 300


def test_the_expected_score_is_the_mean_over_the_digits():
    digits = {str(d): d / 9 for d in range(10)}
    first = (
        ("9", math.log(0.5)),
        (" 9", math.log(0.2)),
        ("4", math.log(0.25)),
        ("x", math.log(0.05)),
    )
    # (0.7 * 1 + 0.25 * 4/9) / 0.95
    assert read_expected(Reply("9", "length", first), digits) == pytest.approx(0.853801169)
    with pytest.raises(Unreadable, match=r"0\.25 of the probability"):
        read_expected(Reply("x", "length", first[2:]), digits)
    with pytest.raises(Unreadable):
        read_expected(Reply("9"), digits)


@pytest.mark.parametrize("logprob", [math.nan, math.inf, 3.0])
def test_a_log_probability_that_is_none_is_no_verdict(logprob):
    class Odd(JudgeServer):
        async def respond(self, request, headers, writer):
            self.requests.append(request)
            top = [{"token": "9", "logprob": logprob}]
            await send(writer, 200, completion("9", logprobs={"content": [{"top_logprobs": top}]}))
            return True

    async def run(judge):
        async with judge.session() as session:
            return await session.expect(Question("Judge.", ("x",)), {"9": 1.0}, Usage())

    with Odd(say) as server:
        with pytest.raises(NoVerdict):
            asyncio.run(run(client(server, retries=1)))
        assert server.requests[0]["max_tokens"] == 1 and server.requests[0]["top_logprobs"] == 20


def test_a_cancelled_batch_leaves_no_connection_task_or_slot(tmp_path):
    arrived = None

    class Hanging(JudgeServer):
        async def respond(self, request, headers, writer):
            self.requests.append(request)
            if len(self.requests) == 5:
                main.call_soon_threadsafe(arrived.set)
            writer.write(b"HTTP/1.1 200 OK\r\nX: ")
            while True:  # until the client is seen to be gone
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)

    async def batch(session):
        questions = [Question("Judge.", (f"#{n}",)) for n in range(20)]
        await asyncio.gather(*(session.ask(q, Verdict, Usage()) for q in questions))

    async def run(judge):
        nonlocal arrived, main
        arrived, main = asyncio.Event(), asyncio.get_running_loop()

        async def scoring():
            async with judge.session() as session:
                await batch(session)

        task = asyncio.create_task(scoring())
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        (gate,) = judge._gates.values()
        assert not gate.locked()
        for _ in range(500):
            if not server.open_connections:
                break
            await asyncio.sleep(0.01)
        assert server.open_connections == 0

    main = None
    with Hanging(say) as server:
        asyncio.run(run(client(server, concurrency=5, timeout_s=60.0, cache=str(tmp_path))))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_client_serves_one_event_loop_after_another():
    with JudgeServer(say) as server:
        judge = client(server, concurrency=2)
        assert ask(judge, [1, 2, 3, 4]) == ask(judge, [1, 2, 3, 4]) == [1, 2, 3, 4]
