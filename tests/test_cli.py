"""The command line: help that helps, and exit codes that mean something."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
import typer

import plumbline
from plumbline.__main__ import _check_stage as check_stage
from plumbline.cli import app, main
from plumbline.cli.options import repeated
from tests.first import as_first
from tests.full_disk import largest_file
from tests.tiny import STAGES, run_cli, run_process


def commands(group: Any, *before: str) -> list[tuple[str, ...]]:
    """Every command, as the words that call it."""
    found = []
    for name, command in group.commands.items():
        found += commands(command, *before, name) if hasattr(command, "commands") else [(*before, name)]
    return found


SOURCES = os.environ | {"PYTHONPATH": str(Path(plumbline.__file__).parents[1])}
UNDER_DVC = SOURCES | {"DVC_STAGE": "train"}
ALL = commands(typer.main.get_command(app))


def plain(text: str) -> str:
    """Without the frames, colours and line ends of a terminal."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


def test_every_stage_and_every_release_command_is_there():
    release = ["promote", "is-champion", "sign", "verify", "rollback", "list", "challenge", "tidy"]
    groups = {"release": release, "adapters": ["list", "merge"], "fields": ["adapters", "merge"]}
    use = {"doctor", "inspect", "predict", "explain", "report", "replay", "section", "compare", "score", "serve"}
    use |= {"triton", "tensorrt", "adapt", "restore"}
    single = {(name,) for name in (*STAGES, *use)}
    assert set(ALL) == single | {(group, name) for group, names in groups.items() for name in names}


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_says_what_it_does_and_gives_an_example(words, tmp_path):
    ended = run_cli(*words, "--help", cwd=tmp_path)
    assert ended.code == 0
    said = plain(ended.out)
    assert f"Usage: plumbline {' '.join(words)}" in said
    assert f"Example: plumbline {' '.join(words)}" in said
    assert len(said.split("Usage:")[1].split("Example:")[0].split()) > 15
    assert list(tmp_path.iterdir()) == []
    assert run_cli(*words, "-h", cwd=tmp_path).out == ended.out
    if "More options" in ended.out:  # what most people need comes first
        first, rare = (
            {option for _, option in re.findall(r"(^│[* ]*)(--[a-z-]+)", part, re.MULTILINE)}
            for part in ended.out.split("More options")
        )
        assert first
        assert rare
        assert not first & rare
        assert len(first) < (10 if words[0] in ("predict", "explain", "adapt", "doctor", "triton") else 15)
        assert "required" not in ended.out.split("More options")[1]


def test_the_program_lists_its_commands_completes_them_and_has_a_version(tmp_path, monkeypatch):
    ended = run_process("--help", cwd=tmp_path)
    said = plain(ended.stdout)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "InSAR points and building footprints" in said
    assert all(words[0] in said for words in ALL)
    assert run_cli("--version", cwd=tmp_path).out == f"plumbline {plumbline.__version__}\n"
    typed = {"_PLUMBLINE_COMPLETE": "complete_bash", "COMP_WORDS": "plumbline pre", "COMP_CWORD": "1"}
    for name, value in typed.items():
        monkeypatch.setenv(name, value)
    assert run_process(cwd=tmp_path).stdout.split() == ["prepare", "predict"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("--points a b c --output o", "--points a --points b --points c --output o"),
        ("--points=a b --map m --points c", "--points=a --points b --map m --points c"),
        ("--map m --points a", "--map m --points a"),
        ("--points", "--points"),
        ("package --points a b", "package --points a --points b"),
    ],
)
def test_points_takes_every_word_that_follows(words, wanted):
    """As a shell makes them of `--points EGMS_*.zip`."""
    assert repeated(words.split()) == wanted.split()


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_an_option_that_takes_one_value_is_refused_where_it_is_given_twice(words, tmp_path):
    """It would be the last one that counts, without a word."""
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    single = [one for one in command.params if one.param_type_name == "option" and not (one.multiple or one.is_flag)]
    for option in single[:1] + single[-1:]:
        ended = run_cli(*words, *2 * (option.opts[0], "1"), cwd=tmp_path)
        assert (ended.code, f"{max(option.opts, key=len)} is given 2 times" in ended.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [["validat"], ["train", "--epochs", "5"], ["release"], ["predict", "--points", "a.csv"], [], ["--verbose", "x"]],
    ids=["unknown command", "unknown option", "no sub-command", "option missing", "nothing", "no command"],
)
def test_a_wrong_call_ends_with_2(words, tmp_path):
    ended = run_cli(*words, cwd=tmp_path)
    assert ended.code == 2
    assert "Usage: plumbline" in plain(ended.out + ended.err)


def run_python(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def test_a_stage_of_the_dvc_that_is_the_first_process_of_a_container_is_made(tmp_path):
    parent = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'plumbline', '--help']))"
    done = run_python(*as_first(sys.executable, "-c", parent), env=UNDER_DVC, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_stage_whose_dvc_has_ended_is_not_begun(tmp_path):
    orphan = "import os; from plumbline.cli import main; main(os.getpid())"
    done = run_python(sys.executable, "-c", orphan, env=UNDER_DVC, cwd=tmp_path)
    assert (done.returncode, "DVC" in done.stderr) == (2, True)


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_ends_with_2_where_there_are_no_params(stage, tmp_path):
    ended = run_cli(stage, cwd=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith("ERROR params.yaml: ")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.yaml").write_text("train: [")
    ended = run_cli(stage, "--params", "mine.yaml", cwd=tmp_path)
    assert (ended.code, "ERROR mine.yaml: " in ended.err) == (2, True)


def test_under_dvc_a_machine_makes_no_stage_of_another(tmp_path, monkeypatch):
    """DVC makes anew, without a word, what it did not find; a worker is told not to."""
    monkeypatch.setenv("PLUMBLINE_STAGES", "train compress")
    monkeypatch.setenv("DVC_STAGE", "simulate")
    (tmp_path / "params.yaml").write_text("simulate: [")
    done = run_process("simulate", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("ERROR PLUMBLINE_STAGES: train compress found")
    monkeypatch.setenv("PLUMBLINE_STAGES", "train simulate")
    assert "ERROR params.yaml: " in run_process("simulate", cwd=tmp_path).stderr
    monkeypatch.setenv("PLUMBLINE_STAGES", "train")
    monkeypatch.delenv("DVC_STAGE")  # asked for by a person, who knows
    check_stage()  # what the process begins with, and goes on from
    assert "ERROR params.yaml: " in run_cli("simulate", cwd=tmp_path).err


def test_a_fault_of_ours_ends_with_1_and_one_message(tiny, tmp_path, monkeypatch):
    """An exporter that answers with nothing, which no user would be told to mend."""
    project = tiny.copy(tmp_path / "project", "prepare", "train", "compress")
    monkeypatch.setattr("torch.onnx.export", lambda *_, **__: None)
    ended = run_cli("export", cwd=project)
    assert ended.code == 1
    assert ended.err.count("ERROR") == 1
    assert "ERROR torch.onnx.export" in ended.err
    assert not (project / "data" / "export").exists()


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_meets_a_full_disk_says_so_in_one_line(tiny, tmp_path, stage, monkeypatch):
    """No file may grow beyond 200 bytes."""
    # What torch makes of the network takes seconds; to write it is what is asked for here.
    made = SimpleNamespace(model_proto=onnx.load(tiny.data("export") / "float32.onnx"))
    monkeypatch.setattr("torch.onnx.export", lambda *_, **__: made)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    project = tiny.copy(tmp_path / "project", *STAGES[: STAGES.index(stage)])
    with largest_file(200):
        ended = run_cli(stage, cwd=project)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    last = ended.err.splitlines()[-1]
    # TensorBoard's thread may be the first to meet it, and names no file.
    file = r"(\S+: )?" if stage in ("train", "compress") else r"\S+: "
    assert re.match(rf"ERROR {file}.* \(.*\)\. Make room", last), ended.err
    assert ".part" not in last
    assert not (project / "data" / stage).exists()
    assert not list(project.glob("data/.*"))


def test_a_full_disk_that_a_thread_meets_is_one_line_and_another_fault_a_traceback():
    failing = """
import sys, threading
from plumbline.cli import _thread_failed
threading.excepthook = _thread_failed
def fill():
    with open("/dev/full", "wb") as stream:
        stream.write(b"content")
def divide():
    1 / 0
for target in (fill, divide):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
"""
    done = run_python(sys.executable, "-c", failing)
    assert "(No space left on device)" in done.stderr.splitlines()[0]
    assert done.stderr.count("Traceback") == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(("path", "said"), [("closed/f.csv", "closed/f.csv"), ("data/.out.12.part/x", "data/out/x")])
def test_what_is_closed_to_the_user_is_named_in_one_line(monkeypatch, capsys, path, said):
    def refuse(**_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("plumbline.cli.app", refuse)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert re.fullmatch(f"ERROR {said}: Permission denied.*\n", capsys.readouterr().err)


def test_release_list_of_a_new_project_says_that_there_is_nothing(tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    project = tiny.copy(tmp_path / "project")
    ended = run_cli("release", "list", cwd=project)
    assert ended.code == 0
    assert "nothing was released yet" in ended.err


def test_ctrl_c_while_libraries_load_is_quiet():
    stopped = """
import sys
class Stop:
    def find_spec(self, name, path, target=None):
        if name == "plumbline.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from plumbline.__main__ import main
main()
"""
    done = run_python(sys.executable, "-c", stopped)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("module", "name", "turned"),
    [
        ("plumbline.cli.stages", "family_in", "raise"),
        ("plumbline.cli", "set_spinning", "raise"),
        ("plumbline.cli.stages", "family_in", "raise ImportError('initialization failed')"),
    ],
    ids=["in the command", "before it", "turned into another error"],
)
def test_ctrl_c_in_a_command_is_said(tmp_path, module, name, turned):
    stopped = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import {module} as module
def interrupt(*given):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        {turned}
module.{name} = interrupt
sys.argv = ["plumbline", "ingest"]
from plumbline.__main__ import main
main()
"""
    done = run_python(sys.executable, "-c", stopped, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines() == ["ERROR interrupted"]


@pytest.mark.heavy
def test_ctrl_c_leaves_no_file(tmp_path):
    case = Path(__file__).parent / "fixtures/cases/base"
    words = ["--points", case / "asc.csv", case / "des.csv", "--buildings", case / "fp.gpkg", "--output", "o.gpkg"]
    # Started in the background, this run has the signal ignored, and its children with it.
    begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    main = f"{begin}; from plumbline.__main__ import main; main()"
    command = [sys.executable, "-c", main, "predict", *words, "--map", "m.html"]
    process = subprocess.Popen(command, env=SOURCES, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = next(line for line in process.stderr if "drawing m.html" in line)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 130, said + rest
    assert rest.splitlines()[-1] == "ERROR interrupted"
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []
