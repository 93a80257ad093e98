"""Tools for assistants, through the client of the `mcp` package, and `lpfuse audit` behind one."""

import asyncio
import json
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import lpfuse
from helpers.pumps import pumps, write
from lpfuse_cli.app import app
from lpfuse_cli.commands import UNPROVEN

mcp = pytest.importorskip("mcp", reason="mcp is not installed: pip install 'lpfuse[mcp]'")
from lpfuse_cli.assistants import server_of  # noqa: E402

TOOLS = {"fit", "score", "explain", "ask", "audit"}
FIT = {"data": "pumps.csv", "label": "state", "normal": ["ok"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small_model_file):
    """With a model and tables; beside it a table that the server must not touch."""
    folder = tmp_path_factory.mktemp("outer") / "shared"
    folder.mkdir()
    write(pumps(120).select("bar", "flow", "kind", "state"), folder / "pumps.csv")
    write(pumps(80, seed=5).select("bar", "flow", "kind"), folder / "new.csv")
    write(pumps(20), folder.parent / "secret.csv")
    (folder / "link.csv").symlink_to(folder.parent / "secret.csv")
    (folder / "known.lpfuse").write_bytes(small_model_file.read_bytes())
    return folder


def call(server, *calls):
    """Results of tools, one after the other: what is structured, or the words of an error."""

    async def ask():
        async with mcp.Client(server) as client:
            answers = [await client.call_tool(name, values) for name, values in calls]
            return [
                answer.content[0].text if answer.is_error else answer.structured_content
                for answer in answers
            ]

    return asyncio.run(ask())


def command(folder, *words):
    """What the same command of a person says."""
    done = subprocess.run(
        [sys.executable, "-m", "lpfuse_cli", *words, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_tools_give_what_the_commands_give(folder):
    score = {"model": "known.lpfuse", "data": "new.csv"}
    fitted, scored, explained, asked, audited = call(
        server_of(folder),
        ("fit", {**FIT, "model": "by_tool.lpfuse", "drop": ["kind"]}),
        ("score", {**score, "output": "by_tool.csv"}),
        ("explain", {**score, "alarms": 2}),
        ("ask", {**score, "output": "by_tool.html", "questions": 3}),
        ("audit", {"model": "by_tool.lpfuse"}),
    )
    same = command(
        folder,
        "fit",
        "pumps.csv",
        "--label=state",
        "--normal=ok",
        "--drop=kind",
        "-o",
        "own.lpfuse",
    )
    assert {**fitted, "model": "own.lpfuse"} == same
    assert fitted["features"] == ["bar", "flow"]
    command(folder, "score", "known.lpfuse", "new.csv", "-o", "own.csv")
    assert (folder / "by_tool.csv").read_text() == (folder / "own.csv").read_text()
    frame = pl.read_csv(folder / "own.csv").with_row_index("row", 1)
    alarms = frame.filter(pl.col("decision") == -1)
    assert scored["anomalies"] == explained["anomalies"] == len(alarms) > 2
    assert [row["row"] for row in explained["rows"]] == alarms["row"].head(2).to_list()
    assert all("±" in row["why"] for row in explained["rows"])  # of the score, not only the range
    assert len(asked["rows"]) == 3
    assert (folder / "by_tool.html").is_file()
    assert audited["proof"]["holds"] is True
    assert "95 % interval" in audited["promise"]
    assert audited["limits"] == UNPROVEN


@pytest.mark.parametrize(
    ("tool", "values", "words"),
    [
        ("score", {"data": "../secret.csv"}, "must be a file in the folder"),
        ("score", {"data": "link.csv"}, "must be a file in the folder"),
        ("score", {"data": "/etc/hosts.csv"}, "must be a file in the folder"),
        ("score", {"data": "-"}, "must be a file in the folder"),
        ("score", {"data": "known.lpfuse"}, "ending .csv or"),
        ("score", {"data": "missing.csv"}, "Files of this kind: "),
        ("score", {"output": "../out.csv"}, "must be a file in the folder"),
        ("score", {"output": "new.csv"}, "exists, and no file is replaced"),
        ("score", {"output": "out.exe"}, "ending .csv or"),
        ("fit", {**FIT, "normal": None, "model": "x.lpfuse"}, "Which is normal?"),
        ("fit", {**FIT, "label": "--key=x", "model": "x.lpfuse"}, "'--key=x'"),
    ],
)
def test_what_is_refused_says_why_and_leaves_nothing(folder, tool, values, words):
    good = {"model": "known.lpfuse", "data": "new.csv", "output": "never.csv"}
    before = sorted(folder.parent.rglob("*"))
    (said,) = call(server_of(folder), (tool, {**(good if tool == "score" else {}), **values}))
    assert isinstance(said, str)
    assert words in said
    assert str(folder) not in said
    assert sorted(folder.parent.rglob("*")) == before


def test_a_tool_that_takes_too_long_is_ended(folder):
    (said,) = call(server_of(folder, timeout=0.05), ("audit", {"model": "known.lpfuse"}))
    assert "took longer than 0.05 seconds" in said


def test_the_server_over_standard_input_and_output(folder):
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "lpfuse_cli", "mcp", str(folder)]
    )

    async def ask():
        async with mcp.Client(stdio_client(parameters)) as client:
            tools = (await client.list_tools()).tools
            audited = await client.call_tool("audit", {"model": "known.lpfuse"})
            return client.instructions, tools, audited.structured_content

    instructions, tools, audited = asyncio.run(ask())
    assert {tool.name for tool in tools} == TOOLS
    assert "Never answer the questions of `ask` yourself" in instructions
    for tool in tools:
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        assert "do not" in tool.description.lower() or "repeat" in tool.description.lower()
    assert audited["proof"]["holds"] is True


def test_no_server_without_a_folder(tmp_path):
    with pytest.raises(NotADirectoryError, match="There is no folder"):
        server_of(tmp_path / "missing")


def test_the_extra_is_named_where_it_is_missing():
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from lpfuse_cli.assistants import server_of\n"
        "try: server_of('.')\n"
        "except ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "lpfuse[mcp]"' in told.stdout


def test_audit_finds_weights_that_were_altered(folder, tmp_path):
    fused = lpfuse.load(folder / "known.lpfuse")
    good = CliRunner().invoke(app, ["audit", str(folder / "known.lpfuse")])
    assert good.exit_code == 0
    assert "The certificate holds" in good.stdout
    fused.fusion_.weights_ = fused.fusion_.weights_[::-1].copy()
    fused.save(tmp_path / "altered.lpfuse")
    bad = CliRunner().invoke(app, ["audit", str(tmp_path / "altered.lpfuse"), "--json"])
    assert bad.exit_code == 3
    assert json.loads(bad.stdout)["proof"]["holds"] is False


def test_audit_without_learnt_weights_has_nothing_to_prove(tmp_path):
    path = tmp_path / "uniform.lpfuse"
    X = pumps(100).select("bar", "flow").drop_nulls().to_numpy()
    lpfuse.FusedDetector(["gmm", "kpca"], fusion=lpfuse.FixedRule(), random_state=0).fit(X).save(
        path
    )
    told = CliRunner().invoke(app, ["audit", str(path), "--json"])
    assert json.loads(told.stdout)["proof"]["holds"] is None
