"""A package counts as signed only as its signer left it; each test runs the real library, offline."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from plumbline.core.errors import GateRefused, SignatureRefused
from plumbline.pretrained import FIELDS, PACKAGE
from plumbline.release.names import verify_package
from plumbline.release.promotion import challenge, promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_fields, resolve_model
from plumbline.release.signature import PASSWORD, check_signature, sign, signature_of
from tests.refusals import refuses
from tests.release.conftest import MakePackage, Pair
from tests.release.test_promotion import agree, never
from tests.tiny import Tiny, run_cli
from tests.words import read_words


@pytest.fixture
def signed(make_package: MakePackage, keys: Pair) -> Path:
    package = make_package("one")
    assert sign(package, keys.private) == signature_of(package)
    check_signature(package, keys.public)
    return package


@pytest.mark.parametrize("family", [PACKAGE, FIELDS], ids=["diagnosis", "restoration"])
def test_packages_of_both_families_are_signed_beside_their_folder(family: Path, tmp_path: Path, keys: Pair) -> None:
    package = tmp_path / "model"
    shutil.copytree(family, package)
    assert run_cli("release", "verify", package, "--verify-key", keys.public, cwd=tmp_path).code == 3
    ended = run_cli("release", "sign", package, "--sign-key", keys.private, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert (tmp_path / "model.sig").is_file()
    resolve = resolve_model if family == PACKAGE else resolve_fields
    assert resolve(str(package), verify_key=keys.public) == package
    ended = run_cli("release", "verify", package, "--verify-key", keys.public, cwd=tmp_path)
    assert ended.code == 0, ended.err
    moved = package.rename(tmp_path / "renamed")
    (tmp_path / "model.sig").rename(tmp_path / "renamed.sig")
    check_signature(moved, keys.public)


def test_without_a_key_hashes_alone_are_checked(make_package: MakePackage, tmp_path: Path) -> None:
    package = make_package("one")
    ended = run_cli("release", "verify", package, cwd=tmp_path)
    assert ended.code == 0, ended.err
    for said in (verify_package(package).version, "No signature was checked", "--verify-key"):
        assert said in ended.err
    (package / "model.onnx").write_text("onE")
    ended = run_cli("release", "verify", package, cwd=tmp_path)
    assert (ended.code, "model.onnx" in ended.err) == (2, True)


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


HARMED = {
    "a byte of the model": (lambda package: alter(package / "model.onnx"), "model.onnx"),
    "a byte of the manifest": (lambda package: alter(package / "manifest.json"), "manifest.json"),
    "one file more": (lambda package: (package / ".gitignore").touch(), ".gitignore"),
    "one file less": (lambda package: (package / "MODEL_CARD.md").unlink(), "MODEL_CARD.md"),
    "no signature": (lambda package: signature_of(package).unlink(), "package_one.sig"),
    "an empty one": (lambda package: signature_of(package).write_text(""), ""),
    "one of nothing": (lambda package: signature_of(package).write_text("{}"), ""),
}


@pytest.mark.parametrize("harm", HARMED)
def test_what_was_changed_since_is_refused(signed: Path, keys: Pair, harm: str) -> None:
    change, place = HARMED[harm]
    change(signed)
    key = "signature.missing" if harm == "no signature" else "signature.mismatch"
    with refuses(key, signed, place, error=SignatureRefused):
        check_signature(signed, keys.public)


def test_links_to_files_are_followed_and_those_to_folders_refused(signed: Path, keys: Pair, tmp_path: Path) -> None:
    (signed / "model.onnx").rename(tmp_path / "cached")
    (signed / "model.onnx").symlink_to(tmp_path / "cached")
    check_signature(signed, keys.public)
    (tmp_path / "cached").write_text("other")
    with refuses("signature.mismatch", "model.onnx", error=SignatureRefused):
        check_signature(signed, keys.public)
    (tmp_path / "elsewhere").mkdir()
    (signed / "adapters").symlink_to(tmp_path / "elsewhere")
    with refuses("package.linked_folder", signed / "adapters", error=SignatureRefused):
        check_signature(signed, keys.public)


def test_another_key_is_refused_also_where_the_signature_names_the_right_one(
    signed: Path, keys: Pair, tmp_path: Path
) -> None:
    right = json.loads(signature_of(signed).read_text())["verificationMaterial"]
    other = Pair(tmp_path, "other")
    sign(signed, other.private)
    with refuses("signature.mismatch", "package_one: ", keys.public, error=SignatureRefused):
        check_signature(signed, keys.public)
    forged = json.loads(signature_of(signed).read_text())
    signature_of(signed).write_text(json.dumps(forged | {"verificationMaterial": right}))
    with refuses("signature.mismatch", error=SignatureRefused):
        check_signature(signed, keys.public)


@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_a_key_that_others_can_read_signs_nothing(make_package: MakePackage, keys: Pair, mode: int) -> None:
    keys.private.chmod(mode)
    package = make_package("one")
    with refuses("sign_key.open_to_others", "own.pem: ", f"{mode:04o}", "chmod 600"):
        sign(package, keys.private)
    assert not signature_of(package).exists()


def test_keys_that_cannot_be_used_are_named(signed: Path, keys: Pair, tmp_path: Path) -> None:
    keys.public.chmod(0o600)
    text, missing = tmp_path / "text.pem", tmp_path / "nothing.pem"
    text.write_text("no key")
    text.chmod(0o600)
    other = Pair(tmp_path, "rsa", rsa.generate_private_key(65537, 2048))
    curve = Pair(tmp_path, "curve", ec.generate_private_key(ec.SECP256K1()))
    for key in (keys.public, missing, text, other.private, curve.private):
        with refuses("sign_key.unusable", f"{key.name}: "):
            sign(signed, key)
    for key in (keys.private, missing, text, other.public, curve.public):
        with refuses("verify_key.unusable", f"{key.name}: "):
            check_signature(signed, key)


def test_a_key_with_a_password_asks_for_it(
    make_package: MakePackage, keys: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, package = Pair(tmp_path, "locked", password=b"secret"), make_package("one")
    for password, key in (("", locked), ("wrong", locked), ("secret", keys)):
        monkeypatch.setenv(PASSWORD, password)
        with refuses("sign_key.unusable", PASSWORD):
            sign(package, key.private)
    sign(package, locked.private)
    check_signature(package, locked.public)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_keys_that_the_guide_makes_with_openssl_work(make_package: MakePackage, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs/trust.md").read_text()
    lines = [line.strip() for line in guide.splitlines() if line.strip().startswith(("(umask", "openssl"))]
    assert len(lines) == 2
    for line in lines:
        subprocess.run(line, shell=True, check=True, cwd=tmp_path, capture_output=True)
    sign(make_package("one"), tmp_path / "KEY.pem")
    check_signature(tmp_path / "package_one", tmp_path / "PUBLIC.pem")


def test_the_champion_is_signed_when_it_is_promoted(registry: Registry, make_package: MakePackage, keys: Pair) -> None:
    package = make_package("one")
    promote(package, never)
    with refuses("signature.missing", error=SignatureRefused):
        resolve_model("champion", verify_key=keys.public)
    assert not promote(package, never, sign_key=keys.private).changed  # it was the champion already, and is signed now
    assert not signature_of(package).exists()
    champion = resolve_model("champion", verify_key=keys.public)
    assert read_words(champion) == "one"
    assert len(Registry().versions()) == 1
    promote(make_package("two"), agree, sign_key=keys.private)
    assert read_words(resolve_model("champion", verify_key=keys.public)) == "two"
    rollback()
    resolve_model("champion", verify_key=keys.public)
    (champion / "model.onnx").write_text("evil")
    with refuses("signature.mismatch", "model.onnx", error=SignatureRefused):
        resolve_model("champion", verify_key=keys.public)


def test_an_unfit_key_or_a_refusal_leaves_the_registry_as_it_was(
    registry: Registry, make_package: MakePackage, keys: Pair
) -> None:
    keys.private.chmod(0o644)
    package = make_package("one")
    with refuses("sign_key.open_to_others"):
        promote(package, never, sign_key=keys.private)
    with refuses("sign_key.open_to_others"):
        challenge(package, sign_key=keys.private)
    assert Registry().versions() == []
    keys.private.chmod(0o600)
    with pytest.raises(GateRefused):
        promote(make_package("two", verdict="fail"), never, sign_key=keys.private)
    assert Registry().versions() == []


def test_a_server_hands_out_signatures_and_an_old_download_is_fetched_again(
    registry: Registry, make_package: MakePackage, keys: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("registry", "promotion"):
        monkeypatch.setattr(f"plumbline.release.{module}.local_folder", lambda uri: None)  # as on a server
    package = make_package("one")
    promote(package, never)
    with refuses("signature.missing", error=SignatureRefused):
        resolve_model("champion", verify_key=keys.public)
    shutil.rmtree(package)
    promote(make_package("one", seconds=3), never, sign_key=keys.private)
    champion = resolve_model("champion", verify_key=keys.public)
    (champion / "MODEL_CARD.md").write_text("harmed")
    resolve_model("champion", verify_key=keys.public)
    assert (champion / "MODEL_CARD.md").read_text() == "A card."


@pytest.mark.slow
def test_predict_and_score_use_the_signed_champion_and_refuse_what_was_altered(
    tiny: Tiny, tmp_path: Path, keys: Pair
) -> None:
    root = tiny.copy(tmp_path / "project", "package")
    words = ["predict", "--points", *tiny.products(), "--buildings", tiny.footprints, "--output", "o.csv"]
    words += ["--model", "champion", "--verify-key", keys.public]
    delivery = root / "data/deliveries/town/first"
    delivery.mkdir(parents=True)
    for path in [*tiny.products(), tiny.footprints]:
        (delivery / path.name).symlink_to(path)
    with (root / "params.yaml").open("a") as file:
        file.write("score: {settle_s: 0}\n")
    score = ["score", "--workers", "1", "--verify-key", keys.public]

    assert run_cli("release", "promote", "data/package", cwd=root).code == 0
    for command in (words, score):
        ended = run_cli(*command, cwd=root)
        assert (ended.code, "not signed" in ended.err) == (3, True), ended.err
    ended = run_cli("release", "promote", "data/package", "--sign-key", keys.private, cwd=root)
    assert ended.code == 0, ended.err
    ended = run_cli("release", "verify", "champion", "--verify-key", keys.public, cwd=root)
    assert ended.code == 0, ended.err
    for command in (words, score):
        ended = run_cli(*command, cwd=root)
        assert ended.code == 0, ended.err
    assert (root / "o.csv").read_text().count("\n") > 20
    assert list(root.glob("data/score/town/*/predictions.gpkg"))
    ended = run_cli(*words, "--adapter", "athens", cwd=root)
    assert (ended.code, "has no signature" in ended.err) == (2, True)
