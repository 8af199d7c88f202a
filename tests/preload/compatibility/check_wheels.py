"""Checks sdp4bit against releases of NCCL: what it resolves is there, what it does not know passes it by, and it reads no
more of a configuration than there is. That it builds with every header is for tests/portability.

  check_wheels.py SOURCE_DIR BUILD_DIR GPU_LIBRARY SANDBOX_LIBRARY COMPILER CUDA_INCLUDE_DIR

Without PyPI nothing can be checked: said loudly, and skipped (77), or with NETWORK_TESTS_REQUIRED=1 failed (1).
"""

import os
import pathlib
import re
import subprocess
import sys

import fetch_wheels

OLDEST, BETWEEN = "2.18.3", ["2.21.5", "2.23.4", "2.27.7"]
failures = []


def expect(condition, text):
    print(("ok      " if condition else "FAILED  ") + text, flush=True)
    if not condition:
        failures.append(text)


def exported(library):
    table = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in table.stdout.splitlines()}


def number(version):
    return tuple(int(part) for part in version.split(".")[:2])


def resolved_names(source):
    """What real_nccl.cpp looks up, by name: (required, optional with the release that real_nccl.h says it came with)."""
    text = (source / "plugin/real_nccl.cpp").read_text()
    header = (source / "plugin/real_nccl.h").read_text()
    required = set(re.findall(r'required\("(pnccl\w+)"', text))
    optional = {}
    for name, field in re.findall(r'optional\("(pnccl\w+)", real->(\w+)\)', text):
        since = re.search(rf"\b{field} = nullptr;\s*// (\d+\.\d+)", header)
        optional[name] = number(since.group(1)) if since else None
    return required, optional


def check_names(version, folder, required, optional):
    names = exported(folder / "libnccl.so.2")
    expect(required <= names, f"{version}: has all {len(required)} required functions {sorted(required - names) or ''}")
    for name, since in optional.items():
        expected = since is not None and number(version) >= since
        expect((name in names) == expected, f"{version}: {name} {'exists' if expected else 'does not exist yet'}")


def check_plugin_symbols(version, folder):
    content = (folder / "libnccl.so.2").read_bytes()
    expect(b"ncclNetPlugin_v6\0" in content, f"{version}: looks for version 6 of a net plugin")


def compile_program(name, source, build, folder, compiler, cuda, *libraries):
    program = build / f"{name}_{folder.name}"
    command = [compiler, "-std=c++20", "-isystem", str(folder), "-isystem", cuda, str(source), "-o", str(program), *libraries, "-ldl"]
    result = subprocess.run(command, capture_output=True, text=True)
    expect(result.returncode == 0, f"{folder.name}: {name} compiles with its header {result.stderr.strip()}")
    return program if result.returncode == 0 else None


def run(program, *arguments, **environment):
    return subprocess.run(
        [str(program), *arguments], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


def check_behaviour(version, folder, source, build, libraries, compiler, cuda):
    here = source / "tests/preload/compatibility"
    newer = sorted(n for n in exported(folder / "libnccl.so.2") if n.startswith("nccl"))
    program = compile_program("pass_through", here / "pass_through.cpp", build, folder, compiler, cuda)
    if program:
        result = run(program, str(folder / "libnccl.so.2"), *newer, LD_PRELOAD=str(libraries["gpu"]))
        ours = {n for n in exported(libraries["gpu"]) if n.startswith("nccl")}
        taken = set(result.stdout.split())
        expect(result.returncode == 0 and taken == ours & set(newer),
               f"{version}: of {len(newer)} functions exactly ours are taken {result.stderr.strip()}")
    program = compile_program("config_guard", here / "config_guard.cpp", build, folder, compiler, cuda,
                              str(folder / "libnccl.so.2"))
    if not program:
        return
    # Real NCCL refuses without a GPU; the emulated one creates the communicator.
    result = run(program, LD_PRELOAD=str(libraries["gpu"]), SDP4BIT_LOG="info", LD_LIBRARY_PATH=str(folder))
    expect(result.returncode == 0 and f"NCCL {version} is in {folder}" in result.stderr,
           f"{version}: the real library is found, and a configuration of its own size passes {result.stdout.strip()}")
    sandbox = str(libraries["sandbox"].parent)
    result = run(program, "success", LD_PRELOAD=str(libraries["sandbox"]), LD_LIBRARY_PATH=sandbox, SDP4BIT_COMMS="all")
    expect(result.returncode == 0, f"{version}: the emulated one takes a configuration of that release {result.stdout.strip()}")
    if number(version) < (2, 22):  # later releases load plugins only where there is a GPU
        path = f"{folder}:{libraries['gpu'].parent}"
        result = run(program, NCCL_NET_PLUGIN="sdp4bit", LD_LIBRARY_PATH=path)
        lines = [line for line in result.stderr.splitlines() if "loaded by NCCL as a net plugin" in line]
        expect(result.returncode == 0 and len(lines) == 1 and "lead to sdp4bit now" in lines[0],
               f"{version}: the real library loads us as its net plugin {lines or result.stderr.strip()}")


def main():
    source, build = (pathlib.Path(path) for path in sys.argv[1:3])
    libraries = {"gpu": pathlib.Path(sys.argv[3]), "sandbox": pathlib.Path(sys.argv[4])}
    compiler, cuda = sys.argv[5:7]
    build.mkdir(parents=True, exist_ok=True)
    try:
        folders = {v: fetch_wheels.fetch(build, "nvidia-nccl-cu12", v) for v in [OLDEST, *BETWEEN]}
        newest = fetch_wheels.newest("nvidia-nccl-cu13")
        folders[newest] = fetch_wheels.fetch(build, "nvidia-nccl-cu13", newest)
    except fetch_wheels.NotReachable as reason:
        print(f"********\nNOT CHECKED: PyPI did not give the wheels of NCCL, so sdp4bit was tried with no release of it.\n{reason}\n********")
        return 1 if os.environ.get("NETWORK_TESTS_REQUIRED", "0") != "0" else 77
    required, optional = resolved_names(source)
    expect(len(required) > 10 and len(optional) > 5 and None not in optional.values(), "the list of functions was found")
    for version, folder in folders.items():
        check_names(version, folder, required, optional)
        check_plugin_symbols(version, folder)
        check_behaviour(version, folder, source, build, libraries, compiler, cuda)
    print(f"{len(failures)} failures with NCCL {', '.join(folders)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
