#!/usr/bin/env python3
"""Writes what a package is made of, as SPDX 2.3 in JSON:

    sbom.py --compiled-in BUILD >NAMES
    sbom.py ROOT --name PACKAGE --version VERSION --output FILE [--depends LIST] [--compiled-with NAMES] [--libraries FOLDER]

ROOT is a folder with the files of the package, of which all but FILE (a path in ROOT) are listed with their hashes.
Beside them it names Debian packages with the versions that this machine has: those whose shared libraries the programs
in ROOT are linked with, those of LIST (as in a field Depends), those of the file NAMES, whose headers were compiled into
the objects of BUILD, and those whose libraries lie in FOLDER of ROOT. SOURCE_DATE_EPOCH is the time of the document, MUSTER_COMMIT the
commit it tells of. The same files and packages give the same bytes.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import uuid

from debian_packages import is_linked, linked_packages, packages_of, run, versions_of

LICENSE = "Apache-2.0"
SUPPLIER = "Organization: the muster project"


def hashes(path):
    sums = [hashlib.new(algorithm) for algorithm in ("sha1", "sha256")]
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            for one in sums:
                one.update(block)
    return [one.hexdigest() for one in sums]


def file_entries(root, output, foreign):
    entries = []
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file() or path == output:
            continue
        sha1, sha256 = hashes(path)
        name = "./" + path.relative_to(root).as_posix()
        entries.append({
            "SPDXID": f"SPDXRef-File-{len(entries)}",
            "fileName": name,
            "checksums": [{"algorithm": "SHA1", "checksumValue": sha1}, {"algorithm": "SHA256", "checksumValue": sha256}],
            "licenseConcluded": "NOASSERTION" if path in foreign else LICENSE,
            "copyrightText": "NOASSERTION",
        })
    return entries


def verification_code(entries):
    sums = sorted(entry["checksums"][0]["checksumValue"] for entry in entries)
    return hashlib.sha1("".join(sums).encode()).hexdigest()


def headers_of(build):
    """Headers of Debian packages that compilers have read for our libraries and programs, as ninja noted them."""
    headers = set()
    ours = False
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            ours = re.match(r"(muster|proto)/", line) is not None and not re.search(r"_test\.dir|/testing/", line)
        elif ours and line.startswith("    /usr/include/"):
            headers.add(line.strip())
    return headers


def debian_entry(package, version, architecture):
    return {
        "SPDXID": f"SPDXRef-Debian-{re.sub('[^A-Za-z0-9.-]', '-', package)}",
        "name": package,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "licenseComments": f"/usr/share/doc/{package}/copyright",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{package.replace('+', '%2B')}@{version.replace('+', '%2B').replace(':', '%3A')}"
                                f"?arch={architecture}",
        }],
    }


def related_packages(root, arguments):
    """The package of each library that was copied; Debian packages and what ours has to do with them, a pair each."""
    origins = {}
    if arguments.libraries:
        packages = json.loads(arguments.origins.read_text())
        origins = {path: packages.get(path.name) for path in sorted((root / arguments.libraries).iterdir())}
        unknown = [path.name for path, package in origins.items() if not package]
        if unknown:
            raise SystemExit(f"{arguments.origins} does not say where {', '.join(unknown)} came from")
    programs = [path for path in sorted(root.rglob("*"))
                if path not in origins and path.is_file() and not path.is_symlink() and os.access(path, os.X_OK) and is_linked(path)]
    programs += [path for path in sorted(root.rglob("*.so")) if path not in programs and path not in origins and is_linked(path)]
    related = {(package, "CONTAINS") for package in origins.values()}
    related |= {(package, "DYNAMIC_LINK") for package in linked_packages(programs, root.resolve())}
    # The first of alternatives.
    related |= {(re.split(r"[ (|:]", one.strip())[0], "DEPENDS_ON") for one in arguments.depends.split(",") if one.strip()}
    if arguments.compiled_with:
        related |= {(package, "BUILD_DEPENDENCY_OF") for package in arguments.compiled_with.read_text().split()}
    own = {"muster", "libmuster-dev"}
    return origins, sorted(one for one in related if one[0] not in own)


def make(root, arguments):
    output = root / arguments.output
    origins, related = related_packages(root, arguments)
    files = file_entries(root, output, origins)
    versions = versions_of({package for package, _ in related})
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    package = {
        "SPDXID": "SPDXRef-Package",
        "name": arguments.name,
        "versionInfo": arguments.version,
        "supplier": SUPPLIER,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": True,
        "packageVerificationCode": {
            "packageVerificationCodeValue": verification_code(files),
            "packageVerificationCodeExcludedFiles": sorted("./" + name for name in [arguments.output, *arguments.excluded]),
        },
        "licenseConcluded": LICENSE,
        "licenseDeclared": LICENSE,
        "licenseInfoFromFiles": ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }
    if os.environ.get("MUSTER_COMMIT"):
        package["sourceInfo"] = f"git commit {os.environ['MUSTER_COMMIT']}"
    debian = {name: debian_entry(name, *versions[name]) for name in sorted(versions)}
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package")]
    relationships += [("SPDXRef-Package", "CONTAINS", entry["SPDXID"]) for entry in files]
    places = {entry["fileName"]: entry["SPDXID"] for entry in files}
    relationships += [(debian[origin]["SPDXID"], "CONTAINS", places["./" + path.relative_to(root).as_posix()])
                      for path, origin in origins.items()]
    for name, kind in related:
        pair = ("SPDXRef-Package", debian[name]["SPDXID"])
        relationships.append((pair[1], kind, pair[0]) if kind == "BUILD_DEPENDENCY_OF" else (pair[0], kind, pair[1]))
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{arguments.name}-{arguments.version}",
        "documentNamespace": "",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [SUPPLIER, f"Tool: muster-sbom-{arguments.version}"],
        },
        "packages": [package, *debian.values()],
        "files": files,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                          for one, kind, other in relationships],
    }
    # A name of its own for every content.
    unique = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    document["documentNamespace"] = f"https://spdx.org/spdxdocs/{document['name']}-{unique}"
    return output, document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, nargs="?")
    parser.add_argument("--compiled-in", type=pathlib.Path)
    parser.add_argument("--name")
    parser.add_argument("--version")
    parser.add_argument("--output")
    parser.add_argument("--excluded", action="append", default=[], help="a file that will name this one, and is not here")
    parser.add_argument("--depends", default="")
    parser.add_argument("--compiled-with", type=pathlib.Path)
    parser.add_argument("--libraries")
    parser.add_argument("--origins", type=pathlib.Path, help="JSON: the Debian package of each library of --libraries")
    arguments = parser.parse_args()
    if arguments.compiled_in:
        print("\n".join(sorted(set(packages_of(headers_of(arguments.compiled_in)).values()))))
        return
    if not (arguments.root and arguments.name and arguments.version and arguments.output):
        parser.error("ROOT, --name, --version and --output are needed")
    if "SOURCE_DATE_EPOCH" not in os.environ:
        parser.error("SOURCE_DATE_EPOCH is not set: scripts/package sets it")
    output, document = make(arguments.root, arguments)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1) + "\n")
    output.chmod(0o644)


if __name__ == "__main__":
    main()
