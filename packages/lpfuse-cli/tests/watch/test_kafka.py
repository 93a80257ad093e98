"""A topic of Kafka, on the mock cluster that its client brings: real sockets, no installation."""

import json
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from helpers.streams import rows
from lpfuse_cli.scoring import load_model, score_frame
from lpfuse_cli.watch import watch

kafka = pytest.importorskip("confluent_kafka", reason="lpfuse[kafka] is not installed")


class Cluster:
    """Brokers in this process, which others reach by a port."""

    def __init__(self):
        settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0}
        self.client = kafka.Producer(settings)
        (broker,) = self.client.list_topics(timeout=30).brokers.values()
        self.address = f"kafka://{broker.host}:{broker.port}/rows"


@pytest.fixture
def producer():
    return Cluster()


def send(producer, values):
    for value in values:
        producer.client.produce("rows", value)
    producer.client.flush(30)


def as_json(frame):
    return [json.dumps(row).encode() for row in frame.to_dicts()]


def expected(model, frame):
    return dict(zip(frame["serial"], score_frame(load_model(model), frame)["score"], strict=True))


def check(verdicts, model, frame):
    assert sorted(verdicts["serial"]) == sorted(frame["serial"])
    assert verdicts.select("partition", "offset").is_unique().all()
    assert verdicts["row"].is_unique().all()
    found = dict(zip(verdicts["serial"], verdicts["score"], strict=True))
    assert found == pytest.approx(expected(model, frame))


def test_each_message_has_one_verdict_after_restart(model, tmp_path, producer):
    frame, out = rows(60), tmp_path / "v.csv"
    options = {"once": True, "keep": ["serial"], "batch_rows": 9}
    address = f"{producer.address}?log_level=0"
    send(producer, as_json(frame[:40]))
    assert watch(model, address, out, **options).rows == 40
    send(producer, as_json(frame[40:]))
    found = watch(model, address, out, **options)
    assert (found.rows, found.judged, found.resumed) == (60, 60, True)
    check(pl.read_csv(out), model, frame)


def test_bad_message_is_noted_alone(model, tmp_path, producer):
    frame = rows(20)
    bad = {
        b"no json": "broken line",
        b"[1, 2]": "broken line",
        b"\xff": "broken line",
        b'{"bar": [1], "flow": 1, "kind": "a"}': "broken line",
        b'{"flow": 1, "kind": "a"}': "missing column",
        b'{"bar": "much", "flow": 1, "kind": "a"}': "cell that is no number or date",
        b'{"bar": 1e999, "flow": 1, "kind": "a"}': "cell that is no number or date",
    }
    send(producer, [*as_json(frame[:10]), *bad, None, *as_json(frame[10:])])
    found = watch(model, producer.address, tmp_path / "v.csv", once=True, keep=["serial"])
    assert found.notes == {
        "broken line": 5,
        "missing column": 1,
        "cell that is no number or date": 2,
    }
    assert found.rows == 28
    check(pl.read_csv(tmp_path / "v.csv"), model, frame)


def test_long_message_is_noted_alone(model, tmp_path, producer):
    frame = rows(20)
    long = json.dumps(frame.to_dicts()[0] | {"more": "x" * 2000}).encode()
    send(producer, [*as_json(frame[:10]), long, *as_json(frame[10:])])
    settings = {"once": True, "keep": ["serial"], "max_record_bytes": 1000}
    found = watch(model, producer.address, tmp_path / "v.csv", **settings)
    assert (found.rows, found.notes) == (21, {"broken line": 1})
    check(pl.read_csv(tmp_path / "v.csv"), model, frame)


def test_messages_as_lines_of_csv(model, tmp_path, producer):
    frame = rows(20)
    send(producer, [*frame.write_csv(include_header=False).encode().splitlines(), b"1,2", b'"'])
    address = f"{producer.address}?columns={','.join(frame.columns)}"
    found = watch(model, address, tmp_path / "v.csv", once=True, keep=["serial"])
    assert found.notes == {"broken line": 2}
    check(pl.read_csv(tmp_path / "v.csv"), model, frame)


def test_kill_9_loses_and_repeats_no_message(model, tmp_path, producer):
    frame, out = rows(90), tmp_path / "v.csv"
    config = tmp_path / "w.toml"
    config.write_text("batch-rows = 5\nbatch-seconds = 0\n")
    words = [sys.executable, "-m", "lpfuse_cli", "watch", model, producer.address, "-o", out,
             "--keep", "serial", "--config", config]  # fmt: skip
    sent = 0
    for kill in range(2):
        send(producer, as_json(frame[sent : sent + 35]))
        sent += 35
        size = out.stat().st_size if out.exists() else 0
        process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if out.exists() and out.stat().st_size > size + 300 * kill:
                break
            time.sleep(0.01)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    send(producer, as_json(frame[sent:]))
    watch(model, producer.address, out, once=True, keep=["serial"])
    check(pl.read_csv(out), model, frame)


@pytest.mark.parametrize("address", ["kafka://", "kafka://host:9092", "kafka://host:9092/a/b"])
def test_address_without_broker_or_topic_raises(model, tmp_path, address):
    with pytest.raises(ValueError, match="kafka://host:port/topic"):
        watch(model, address, tmp_path / "v.csv")


def test_setting_without_value_raises(model, tmp_path):
    with pytest.raises(ValueError, match=r"NAME=VALUE.*got 'columns'"):
        watch(model, "kafka://host:9092/rows?columns", tmp_path / "v.csv")
