// JPEG files as muster/data/images decodes them.
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/image_file.h"
#include "muster/base/base64.h"

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "\xFF\xD8\xFF"sv;

constexpr std::string_view kBaselineJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQF"
    "dBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
    "T09PT09PT09PT09PT09PT0//wAARCAAFAAcDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAZEAEAAgMAAA"
    "AAAAAAAAAAAAAAAQIFEnH/xAAVAQEBAAAAAAAAAAAAAAAAAAACBP/EAB0RAAECBwAAAAAAAAAAAAAAAAMAAQIEBRIUISL/"
    "2gAMAwEAAhEDEQA/AJcTadY4AZpQF78soqqYmVFtf//Z";
constexpr std::string_view kManyScansJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQF"
    "dBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
    "T09PT09PT09PT09PT09PT0//wgARCAAFAAcDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAP/xAAVAQEBAAAAAA"
    "AAAAAAAAAAAAABA//aAAwDAQACEAMQAAABkGH/xAAVEAEBAAAAAAAAAAAAAAAAAAAAA//aAAgBAQABBQKT/8QAGBEAAgMA"
    "AAAAAAAAAAAAAAAAAAIBBBP/2gAIAQMBAT8BtO2sn//EABgRAAIDAAAAAAAAAAAAAAAAAAACAxEx/9oACAECAQE/AXiS8P"
    "/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEABj8Cf//EABYQAAMAAAAAAAAAAAAAAAAAAAABIf/aAAgBAQABPyF4f//a"
    "AAwDAQACAAMAAAAQD//EABURAQEAAAAAAAAAAAAAAAAAAAAx/9oACAEDAQE/ELB//8QAFhEAAwAAAAAAAAAAAAAAAAAAAB"
    "Eh/9oACAECAQE/EG8H/8QAFxAAAwEAAAAAAAAAAAAAAAAAAAERcf/aAAgBAQABPxBkYf/Z";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::decode_image_file(kMagic, data, size);
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const auto file : {kBaselineJpeg, kManyScansJpeg}) {
    for (const char form : {'\0', '\1', '\2'})
      seeds.push_back(form + base64_decode(file).substr(kMagic.size()));
  }
  return seeds;
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
