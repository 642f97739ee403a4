// The recogniser of CIFAR-10's pickles, both kinds.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/records/cifar10_pickle.h"

namespace {

template <std::size_t N>
std::string raw(const char (&literal)[N]) {
  return {literal, N - 1};
}

/// No pictures at all, so that mutants are about the structure.
std::string empty_python2_batch() {
  return raw(
      "\x80\x02}q\x01(U\x0B"
      "batch_labelq\x02U\x07"
      "a batchq\x03U\x06labelsq\x04]q\x05U\x04"
      "dataq\x06"
      "cnumpy.core.multiarray\n_reconstruct\nq\x07"
      "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
      "b\x87Rq\x09(K\x01K\x00M\x00\x0C\x86"
      "cnumpy\ndtype\nq\x0AU\x02u1K\x00K\x01\x87Rq\x0B(K\x03U\x01|"
      "NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\x00tb\x89U\x00tb"
      "U\x09"
      "filenamesq\x0C]q\x0Du.");
}

std::string empty_python3_batch() {
  return raw(
      "\x80\x04}\x94(\x8C\x04"
      "data\x94\x8C\x15numpy.core.multiarray\x94\x8C\x0C_reconstruct\x94\x93\x94\x8C\x05numpy\x94"
      "\x8C\x07ndarray\x94\x93\x94K\x00\x85\x94"
      "C\x01"
      "b\x94\x87\x94R\x94(K\x01K\x00M\x00\x0C\x86\x94h\x05\x8C\x05"
      "dtype\x94\x93\x94"
      "\x8C\x02u1\x94\x89\x88\x87\x94R\x94(K\x03\x8C\x01|"
      "\x94NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\x00t\x94"
      "b\x89"
      "C\x00\x94t\x94"
      "b"
      "\x8C\x06labels\x94]\x94u.");
}

std::string meta() {
  return raw(
      "\x80\x02}q\x01(U\x13num_cases_per_batchq\x02M\x10'U\x0Blabel_namesq\x03]q\x04(U\x01"
      "aq\x05U\x01"
      "bh\x05h\x05h\x05h\x05h\x05h\x05h\x05h\x05"
      "eU\x07num_visM\x00\x0Cu.");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    muster::parse_cifar10_pickle(bytes, "fuzz");
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  try {
    muster::parse_cifar10_meta_pickle(bytes, "fuzz");
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {empty_python2_batch(), empty_python3_batch(), meta()};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
