// Files of torch.save: ZIP archives whose pickles are recognised, and pickles by themselves.

#include <memory>
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/weights/pickle_reader.h"
#include "muster/data/weights/torch_file.h"

namespace {

void read_all(const muster::Weights& weights) {
  std::byte sum{};
  for (const auto& weight : weights.tensors) {
    for (const std::byte byte : muster::row_major_bytes(weight).bytes) sum ^= byte;
  }
  [[maybe_unused]] static volatile std::byte sink;
  sink = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    // Small, so that tensors that repeat their elements are refused before they take time.
    muster::OpenWeightsOptions options{.verify_checksums = false};
    options.limits.expanded_bytes = 65536;
    read_all(muster::parse_torch_file(std::make_shared<muster::fuzz::MemoryFile>(bytes), "fuzz",
                                      options));
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  try {
    muster::read_pickled_tensors(bytes, 0, "fuzz", 8 * size + 65536);
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

// An OrderedDict and a checkpoint, made with Python's pickle and zipfile, and their pickles.
std::vector<std::string> muster::fuzz::seeds() {
  const std::string ordered = base64_decode(
      "UEsDBBQAAAAAAAAAIQDy52DhowEAAKMBAAAQAAAAYXJjaGl2ZS9kYXRhLnBrbIACY2NvbGxlY3Rpb25zCk9yZGVy"
      "ZWREaWN0CnEAKVJxAShYCQAAAGZjLndlaWdodHECY3RvcmNoLl91dGlscwpfcmVidWlsZF90ZW5zb3JfdjIKcQMo"
      "KFgHAAAAc3RvcmFnZXEEY3RvcmNoCkZsb2F0U3RvcmFnZQpxBVgBAAAAMHEGWAMAAABjcHVxB0sGdHEIUUsASwJL"
      "A4ZxCUsDSwGGcQqJaAApUnELdHEMUnENWAQAAABmYy50cQ5oAygoaARoBWgGaAdLBnRxD1FLAEsDSwKGcRBLAUsD"
      "hnERiWgAKVJxEnRxE1JxFFgGAAAAZmMucm93cRVoAygoaARoBWgGaAdLBnRxFlFLA0sDhXEXSwGFcRiJaAApUnEZ"
      "dHEaUnEbWAUAAABjb3VudHEcaAMoKGgEY3RvcmNoCkxvbmdTdG9yYWdlCnEdWAEAAAAxcR5oB0sBdHEfUUsAKSmJ"
      "aAApUnEgdHEhUnEidX1xI1gJAAAAX21ldGFkYXRhcSRoAClScSVYAAAAAHEmfXEnWAcAAAB2ZXJzaW9ucShLAXNz"
      "c2IuUEsDBBQAAAAAAAAAIQAXkOeRGAAAABgAAAAOAAAAYXJjaGl2ZS9kYXRhLzAAAAAAAACAPwAAAEAAAEBAAACA"
      "QAAAoEBQSwMEFAAAAAAAAAAhAHDW528IAAAACAAAAA4AAABhcmNoaXZlL2RhdGEvMQcAAAAAAAAAUEsDBBQAAAAA"
      "AAAAIQDRnmdVAgAAAAIAAAAPAAAAYXJjaGl2ZS92ZXJzaW9uMwpQSwECFAMUAAAAAAAAACEA8udg4aMBAACjAQAA"
      "EAAAAAAAAAAAAAAAgAEAAAAAYXJjaGl2ZS9kYXRhLnBrbFBLAQIUAxQAAAAAAAAAIQAXkOeRGAAAABgAAAAOAAAA"
      "AAAAAAAAAACAAdEBAABhcmNoaXZlL2RhdGEvMFBLAQIUAxQAAAAAAAAAIQBw1udvCAAAAAgAAAAOAAAAAAAAAAAA"
      "AACAARUCAABhcmNoaXZlL2RhdGEvMVBLAQIUAxQAAAAAAAAAIQDRnmdVAgAAAAIAAAAPAAAAAAAAAAAAAACAAUkC"
      "AABhcmNoaXZlL3ZlcnNpb25QSwUGAAAAAAQABADzAAAAeAIAAAAA");
  const std::string nested = base64_decode(
      "UEsDBBQAAAAAAAAAIQBlDxmVeQEAAHkBAAAQAAAAYXJjaGl2ZS9kYXRhLnBrbIAElW4BAAAAAAAAfZQojAVlcG9j"
      "aJRLA4wCbHKURz/gAAAAAAAAjARhcmdzlIwIYXJncGFyc2WUjAlOYW1lc3BhY2WUk5QpgZR9lChoAkc/uZmZmZmZ"
      "mowGbGF5ZXJzlF2UKEsBSwJldWKMCW9wdGltaXplcpR9lIwFc3RhdGWUfZRLAH2UjAdleHBfYXZnlIwMdG9yY2gu"
      "X3V0aWxzlIwSX3JlYnVpbGRfdGVuc29yX3YylJOUKCiMB3N0b3JhZ2WUjAV0b3JjaJSMDEZsb2F0U3RvcmFnZZST"
      "lIwBMJSMA2NwdZRLBnSUUUsASwaFlEsBhZSJjAtjb2xsZWN0aW9uc5SMC09yZGVyZWREaWN0lJOUKVKUdJRSlHNz"
      "c4wKc3RhdGVfZGljdJR9lIwBd5RoEYwSX3JlYnVpbGRfcGFyYW1ldGVylJOUaBMoKGgUaBdoGGgZSwZ0lFFLAUsC"
      "hZRoKYloHylSlHSUUpSIaB8pUpSHlFKUc3UuUEsDBBQAAAAAAAAAIQAXkOeRGAAAABgAAAAOAAAAYXJjaGl2ZS9k"
      "YXRhLzAAAAAAAACAPwAAAEAAAEBAAACAQAAAoEBQSwMEFAAAAAAAAAAhAHDW528IAAAACAAAAA4AAABhcmNoaXZl"
      "L2RhdGEvMQcAAAAAAAAAUEsDBBQAAAAAAAAAIQDRnmdVAgAAAAIAAAAPAAAAYXJjaGl2ZS92ZXJzaW9uMwpQSwEC"
      "FAMUAAAAAAAAACEAZQ8ZlXkBAAB5AQAAEAAAAAAAAAAAAAAAgAEAAAAAYXJjaGl2ZS9kYXRhLnBrbFBLAQIUAxQA"
      "AAAAAAAAIQAXkOeRGAAAABgAAAAOAAAAAAAAAAAAAACAAacBAABhcmNoaXZlL2RhdGEvMFBLAQIUAxQAAAAAAAAA"
      "IQBw1udvCAAAAAgAAAAOAAAAAAAAAAAAAACAAesBAABhcmNoaXZlL2RhdGEvMVBLAQIUAxQAAAAAAAAAIQDRnmdV"
      "AgAAAAIAAAAPAAAAAAAAAAAAAACAAR8CAABhcmNoaXZlL3ZlcnNpb25QSwUGAAAAAAQABADzAAAATgIAAAAA");
  std::vector<std::string> seeds{ordered, nested};
  for (const std::string& archive : {ordered, nested}) {
    const std::size_t begin = archive.find('\x80');
    const std::size_t end = archive.find("PK", begin);
    seeds.push_back(archive.substr(begin, end - begin));
  }
  return seeds;
}

// Values of a pickle are counted against eight times the file; small files may have a mebibyte.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{3} << 20, .bytes_per_input_byte = 24};
}
