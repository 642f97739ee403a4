"""cmake/muster_precompiled.cmake over real compilers, with headers of three lines in muster's and libtorch's places.

  muster_precompiled_test.py G++
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPILER = None

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(uses_muster LANGUAGES CXX)
set(MUSTER_INCLUDE_DIR "${CMAKE_CURRENT_SOURCE_DIR}/prefix")
set(TORCH_INCLUDE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/prefix")
add_library(muster::muster INTERFACE IMPORTED)
target_include_directories(muster::muster INTERFACE prefix)
target_compile_features(muster::muster INTERFACE cxx_std_20)
include("@ROOT@/cmake/muster_precompiled.cmake")
add_compile_options(-H)
add_library(fits OBJECT fits.cpp)
target_link_libraries(fits PRIVATE muster::muster)
add_library(other_flags OBJECT other_flags.cpp)
target_link_libraries(other_flags PRIVATE muster::muster)
target_compile_options(other_flags PRIVATE -O2)
add_library(own_headers OBJECT own_headers.cpp)
target_link_libraries(own_headers PRIVATE muster::muster)
target_precompile_headers(own_headers PRIVATE <vector>)
"""


class MusterPrecompiled(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = os.path.join(self.folder, 'cache')
        for name, text in {'muster/muster.h': '#include <vector>', 'muster/nn/api.h': '#include <string>',
                           'torch/types.h': '#include <map>', 'torch/version.h': '', 'ATen/ATen.h': ''}.items():
            self.write(f'prefix/{name}', f'#pragma once\n{text}\n')
        for name in 'fits', 'other_flags', 'own_headers':
            self.write(f'{name}.cpp', f'#include <muster/muster.h>\nint {name}() {{ return int(std::vector<int>(3).size()); }}\n')
        self.write('CMakeLists.txt', PROJECT.replace('@ROOT@', ROOT))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)

    def run_in_it(self, *words):
        done = subprocess.run(words, cwd=self.folder, env={**os.environ, 'XDG_CACHE_HOME': self.cache, 'CXX': COMPILER},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def configure(self, build='build', *options):
        self.run_in_it('cmake', '-G', 'Ninja', '-B', build, *options)

    def headers_of(self, target, build='build'):
        """What g++ -H lists for the target: "! FILE" is a precompiled header that was used."""
        self.run_in_it('cmake', '--build', build, '--target', 'clean')
        return self.run_in_it('cmake', '--build', build, '--target', target)

    def precompile(self, build='build'):
        self.run_in_it('cmake', '--build', build, '--target', 'muster_precompiled')

    def test_nothing_is_made_or_used_unasked(self):
        self.configure()
        self.assertNotIn('\n! ', self.headers_of('fits'))
        self.assertFalse(os.path.exists(self.cache))

    def test_this_project_and_the_next_use_what_was_made(self):
        self.configure()
        self.precompile()
        self.assertIn(f'! {self.cache}/muster/precompiled/', self.headers_of('fits'))
        self.configure('another')
        text = self.headers_of('fits', 'another')
        self.assertIn(f'! {self.cache}/muster/precompiled/', text)
        self.assertNotIn('/vector', text)

    def test_other_flags_read_the_headers_themselves(self):
        self.configure()
        self.precompile()
        text = self.headers_of('other_flags')
        self.assertNotIn('! ', text)
        self.assertIn('/vector', text)

    def test_a_second_set_of_flags_is_kept_beside_the_first(self):
        self.configure()
        self.precompile()
        self.configure('release', '-DCMAKE_BUILD_TYPE=Release')
        self.assertNotIn('! ', self.headers_of('fits', 'release'))
        self.precompile('release')
        for build in 'build', 'release':
            self.assertIn(f'! {self.cache}/muster/precompiled/', self.headers_of('fits', build))

    def test_targets_with_precompiled_headers_of_their_own_keep_to_them(self):
        self.configure()
        self.precompile()
        text = self.headers_of('own_headers')
        self.assertNotIn(f'{self.cache}', text)
        self.assertIn('! CMakeFiles/own_headers.dir/cmake_pch.hxx.gch'.split()[1], text.replace(f'{self.folder}/build/', ''))

    def test_headers_that_were_replaced_are_not_taken_from_the_cache(self):
        self.configure()
        self.precompile()
        os.utime(os.path.join(self.folder, 'prefix/muster/nn/api.h'), (1, 1))    # Packages bring the times of their build.
        self.configure('another')
        self.assertNotIn('! ', self.headers_of('fits', 'another'))

    def test_without_a_folder_for_caches_there_is_no_target_and_no_error(self):
        environment = {k: v for k, v in os.environ.items() if k not in ('HOME', 'XDG_CACHE_HOME')}
        subprocess.run(['cmake', '-G', 'Ninja', '-B', 'build'], cwd=self.folder, env={**environment, 'CXX': COMPILER}, check=True,
                       stdout=subprocess.DEVNULL)
        self.assertNotIn('muster_precompiled:', self.run_in_it('cmake', '--build', 'build', '--target', 'help'))


if __name__ == '__main__':
    COMPILER = sys.argv.pop(1)
    unittest.main()
