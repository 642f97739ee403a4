#!/usr/bin/env python3
"""Makes a folder of installed files one that runs from anywhere:  bundle.py ROOT ORIGINS

Copies the shared libraries that the programs in ROOT/bin load, except for those of the C library, to ROOT/lib/muster, where
the programs then look for them, by a place relative to their own (RPATH $ORIGIN). libtorch no longer names libraries of
which it calls nothing, and those are not copied. ROOT/share/doc/muster/licenses has the copyright files of what was copied;
the file ORIGINS gets the Debian package of each library, as JSON.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

from debian_packages import is_linked, loaded, packages_of, run

# Every Linux has its own, which fits its kernel, its loader and its name service.
OF_THE_SYSTEM = {"libc6"}
# Debian's libtorch names OpenCV, FFmpeg and more: 400 MB for nothing.
NAMES_TOO_MUCH = re.compile(r"libtorch_cpu\.so")
RPATH = "$ORIGIN/../lib/muster"


def copy_libraries(programs, folder):
    """Copies what the programs load, by the names that they are loaded by; returns the package of each copy."""
    found = {}
    for program in programs:
        found.update(loaded(program))
    packages = packages_of(found.values())
    unknown = sorted(path for path in found.values() if path not in packages)
    if unknown:
        raise SystemExit(f"bundle: no Debian package has {', '.join(unknown)}")
    folder.mkdir(parents=True)
    origins = {}
    for name, path in found.items():
        if packages[path] not in OF_THE_SYSTEM:
            shutil.copyfile(path, folder / name)
            (folder / name).chmod(0o644)
            origins[name] = packages[path]
    return origins


def look_beside(programs, folder):
    for program in programs:
        # RPATH, not RUNPATH: the libraries' own libraries are looked for there, too.
        run("patchelf", "--force-rpath", "--set-rpath", RPATH, str(program))
    for library in folder.iterdir():
        if re.search(r"\((RPATH|RUNPATH)\)", run("readelf", "--dynamic", str(library))):
            run("patchelf", "--remove-rpath", str(library))


def forget_unused(programs, folder):
    """Has libtorch name what it calls alone, and removes libraries that are not loaded then."""
    for library in folder.iterdir():
        if NAMES_TOO_MUCH.match(library.name):
            options = [word for name in unused_by(library) for word in ("--remove-needed", name)]
            run("patchelf", *options, str(library))
    used = set()
    for program in programs:
        used |= {pathlib.Path(path).name for path in loaded(program).values()}
    for library in list(folder.iterdir()):
        if library.name not in used:
            library.unlink()


def bind(option, path):
    """What the loader tells when it binds all symbols of a program or library; its status tells of that, too."""
    return subprocess.run(["ldd", option, str(path)], capture_output=True, text=True).stdout


def unused_by(library):
    """Libraries that it names and of which it uses no symbol."""
    return [pathlib.Path(path).name for path in re.findall(r"^\s+(/\S+)$", bind("-u", library), re.M)]


def check_symbols(programs):
    for program in programs:
        missing = re.findall(r"undefined symbol: \S+|symbol \S+, version \S+ not defined", bind("-r", program))
        if missing:
            raise SystemExit(f"bundle: {program.name} lacks symbols in its folder: {', '.join(missing[:5])}")


def copy_licenses(packages, folder):
    for package in packages:
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        if not text.exists():
            raise SystemExit(f"bundle: {text} is not there, so what {package} asks of copies is not known")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(text, folder / package)


def main():
    root, told = map(pathlib.Path, sys.argv[1:])
    folder = root / "lib/muster"
    programs = [path for path in sorted((root / "bin").iterdir()) if is_linked(path)]
    origins = copy_libraries(programs, folder)
    look_beside(programs, folder)
    forget_unused(programs, folder)
    check_symbols(programs)
    origins = {path.name: origins[path.name] for path in sorted(folder.iterdir())}
    copy_licenses(sorted(set(origins.values())), root / "share/doc/muster/licenses")
    told.write_text(json.dumps(origins, indent=1))


if __name__ == "__main__":
    main()
