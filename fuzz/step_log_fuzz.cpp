// The log that a ps task reads when it comes back. The first byte says whether the rest is the
// file, or records of which each is after its length in two bytes: those get the checksums that
// most changes to a file break.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/checkpoint/step_log.h"
#include "muster/data/records/record_reader.h"

namespace {

std::string frame(std::string_view data) {
  std::string bytes;
  const auto append = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  append(std::uint64_t{data.size()});
  append(muster::mask_crc(muster::crc32c(bytes)));
  bytes += data;
  append(muster::mask_crc(muster::crc32c(data)));
  return bytes;
}

std::string framed(std::string_view bytes) {
  std::string file;
  while (bytes.size() >= 2) {
    const auto size = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) |
                      static_cast<std::size_t>(static_cast<unsigned char>(bytes[1])) << 8;
    file += frame(bytes.substr(2, size));
    bytes.remove_prefix(std::min(bytes.size(), 2 + size));
  }
  return file;
}

void read_all(std::string_view bytes) {
  muster::StepLogReader reader(bytes, "fuzz");
  std::string_view body;
  std::int64_t step = 0;
  std::int64_t skipped_batches = 0;
  while (const auto record = reader.next(body)) {
    if (record->kind == muster::StepLogRecord::Kind::kBase) {
      step = record->step;
      skipped_batches = record->skipped_batches;
    }
    // Whatever the bytes are, what comes out is in order.
    if (record->step != step || record->skipped_batches != skipped_batches) __builtin_trap();
    if (record->kind == muster::StepLogRecord::Kind::kCommitted) {
      ++(record->is_left_out ? skipped_batches : step);
    }
    if (body.size() > bytes.size()) __builtin_trap();
  }
  if (reader.torn_at().value_or(0) > bytes.size()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const std::string file = data[0] % 2 == 0 ? std::string(bytes) : framed(bytes);
    read_all(file);
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  const Path folder =
      std::filesystem::temp_directory_path() / ("muster-step-log-" + std::to_string(::getpid()));
  std::string bytes;
  {
    StepLog log(folder);
    const std::string values = "values of a ps task";
    const auto body = std::as_bytes(std::span(values));
    log.begin({.step = 3, .identity = {"run", "ps:0", "model", 4}}, std::span(&body, 1));
    for (std::int64_t step = 3; step < 6; ++step) {
      log.append({.kind = StepLogRecord::Kind::kPrepared,
                  .step = step,
                  .pushes = {{"chief:0", 0, 2}, {"worker:0", 2, 4}},
                  .detail = "detail"},
                 std::span(&body, 1));
      log.append({.kind = StepLogRecord::Kind::kCommitted, .step = step, .squares = {1.5, 2.5}});
    }
    log.append({.kind = StepLogRecord::Kind::kEnded, .step = 6});
    std::ifstream file(list_step_logs(folder).back(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::filesystem::remove_all(folder);
  std::string records;
  RecordReader reader(bytes, "seed");
  while (const auto record = reader.next()) {
    records += static_cast<char>(record->size() & 0xff);
    records += static_cast<char>(record->size() >> 8);
    records += *record;
  }
  return {'\0' + bytes, '\1' + records, '\1' + records.substr(0, records.size() / 2)};
}

// For a text whose length is a lie protobuf reserves up to 50 MB, and fails then.
MemoryBound memory_bound() { return {.base_bytes = std::size_t{64} << 20}; }

}  // namespace muster::fuzz
