"""Which Debian packages shared libraries and headers of this machine come from, and which libraries a program needs."""
import os
import re
import subprocess


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)[:200]} failed: {done.stderr.strip()}")
    return done.stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def is_linked(path):
    """A program or a shared library, not an object file."""
    return is_elf(path) and re.search(r"Type: +(EXEC|DYN) ", run("readelf", "--file-header", str(path))) is not None


def needed(path):
    """The shared libraries that a program or library names."""
    return re.findall(r"\(NEEDED\) +Shared library: \[(.+)\]", run("readelf", "--dynamic", str(path)))


def loaded(path):
    """All shared libraries that the loader maps for a program, name by name: where each lies."""
    answer = run("ldd", str(path))
    missing = re.findall(r"^\s*(\S+) => not found", answer, re.M)
    if missing:
        raise SystemExit(f"{path} needs {', '.join(missing)}, which is not on this machine")
    return dict(re.findall(r"^\s*(\S+) => (/\S+) \(", answer, re.M))


def packages_of(files):
    """The package of each file; of one that no package has, nothing."""
    names = {}
    for file in files:
        # dpkg may know a library by its name in /lib, which is a link to /usr/lib, and alternatives by what they lead to.
        for name in (str(file), os.path.realpath(file)):
            names[name] = str(file)
            names[name.removeprefix("/usr")] = str(file)
    found = {}
    ordered = sorted(names)
    for begin in range(0, len(ordered), 500):
        answer = subprocess.run(["dpkg-query", "--search", *ordered[begin:begin + 500]], capture_output=True, text=True)
        for line in answer.stdout.splitlines():
            owners, _, name = line.partition(": ")
            if name in names and not owners.startswith("diversion"):
                found.setdefault(names[name], owners.split(", ")[0].split(":")[0])
    return found


def versions_of(packages):
    """The installed version and architecture of each package."""
    if not packages:
        return {}
    answer = run("dpkg-query", "--show", "--showformat", "${binary:Package} ${Version} ${Architecture}\n", *sorted(packages))
    versions = {}
    for line in answer.splitlines():
        package, version, architecture = line.split()
        versions[package.split(":")[0]] = (version, architecture)
    return versions


def linked_packages(files, root):
    """The package of every library that these programs and libraries name and that does not lie in the folder `root`."""
    found = {}
    for file in files:
        where = {name: path for name, path in loaded(file).items() if not os.path.realpath(path).startswith(f"{root}/")}
        found.update({where[name]: name for name in needed(file) if name in where})
    packages = packages_of(found)
    unknown = sorted(set(found) - set(packages))
    if unknown:
        raise SystemExit(f"no Debian package has {', '.join(unknown)}")
    return set(packages.values())
