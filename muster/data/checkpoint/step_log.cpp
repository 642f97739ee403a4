#include "muster/data/checkpoint/step_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/records/record_reader.h"
#include "muster/step_log.pb.h"

namespace muster {
namespace {

using Kind = StepLogRecord::Kind;

constexpr std::int64_t kStepLogVersion = 1;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;
constexpr std::string_view kSuffix = ".log";
constexpr std::uint32_t kMostHeadBytes = std::uint32_t{1} << 30;
const RecordReaderOptions kReaderOptions{.compression = Compression::kNone,
                                         .max_record_bytes = std::uint64_t{1} << 44};
// Smaller records are put together in memory and written by one call.
constexpr std::size_t kWriteAtOnce = std::size_t{1} << 20;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string encode_head(const StepLogRecord& record) {
  proto::StepLogHead head;
  head.set_kind(static_cast<proto::StepLogHead::Kind>(record.kind));
  head.set_step(record.step);
  head.set_left_out(record.skipped_batches);
  if (record.kind == Kind::kBase) {
    head.set_version(kStepLogVersion);
    head.set_run(record.identity.run);
    head.set_task(record.identity.task);
    head.set_model(record.identity.model);
    head.set_replicas(record.identity.replicas);
  }
  for (const auto& push : record.pushes) {
    auto& stored = *head.add_pushes();
    stored.set_task(push.task);
    stored.set_first(push.first);
    stored.set_last(push.last);
  }
  if (record.is_left_out) head.set_is_left_out(true);
  head.mutable_squares()->Add(record.squares.begin(), record.squares.end());
  head.set_detail(record.detail);
  return head.SerializeAsString();
}

StepLogRecord decode_head(std::string_view bytes) {
  proto::StepLogHead head;
  if (!head.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw DataLoss("its head is no message of a log");
  }
  StepLogRecord record{.kind = static_cast<Kind>(head.kind()),
                       .step = head.step(),
                       .skipped_batches = head.left_out(),
                       .is_left_out = head.is_left_out()};
  if (record.kind == Kind::kBase && head.version() != kStepLogVersion) {
    throw DataLoss("it is of version {}, and {} is what can be read", head.version(),
                   kStepLogVersion);
  }
  record.identity = {head.run(), head.task(), head.model(), head.replicas()};
  for (const auto& push : head.pushes()) {
    record.pushes.push_back({push.task(), push.first(), push.last()});
  }
  record.squares.assign(head.squares().begin(), head.squares().end());
  record.detail = head.detail();
  return record;
}

std::string_view head_in(std::string_view record) {
  std::uint32_t size = 0;
  constexpr std::size_t kSizeBytes = sizeof size;
  if (record.size() >= kSizeBytes) std::memcpy(&size, record.data(), kSizeBytes);
  if (record.size() < kSizeBytes || size > record.size() - kSizeBytes || size > kMostHeadBytes) {
    throw DataLoss("a head of {} bytes does not fit into the record's {}", size, record.size());
  }
  return record.substr(kSizeBytes, size);
}

/// A record as it is in the file, which is a TFRecord file: its length and checksum and the head
/// in front of the body, the body's checksum after it.
struct Frame {
  std::string front;
  std::string back;
  std::uint64_t bytes = 0;
};

Frame frame_of(const StepLogRecord& record, StepLogBody body) {
  const std::string head = encode_head(record);
  std::string start;
  put(start, static_cast<std::uint32_t>(head.size()));
  start += head;
  std::uint64_t length = start.size();
  std::uint32_t crc = crc32c(start);
  for (const auto& piece : body) {
    length += piece.size();
    crc = crc32c(text_of(piece), crc);
  }
  Frame frame;
  put(frame.front, length);
  put(frame.front, mask_crc(crc32c(frame.front)));
  frame.front += start;
  put(frame.back, mask_crc(crc));
  frame.bytes = frame.front.size() + length - start.size() + frame.back.size();
  return frame;
}

std::uint64_t write_record(WritableFile& file, const StepLogRecord& record, StepLogBody body) {
  Frame frame = frame_of(record, body);
  if (frame.bytes > kWriteAtOnce) {
    file.write(frame.front);
    for (const auto& piece : body) file.write(text_of(piece));
    file.write(frame.back);
    return frame.bytes;
  }
  for (const auto& piece : body) frame.front += text_of(piece);
  file.write(frame.front + frame.back);
  return frame.bytes;
}

std::optional<std::uint64_t> number_of(const std::string& name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  const char* last = name.data() + name.size() - kSuffix.size();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

// In which the log differs from what is wanted, in words.
std::string difference(const StepLogIdentity& log, const StepLogIdentity& wanted) {
  if (log.run != wanted.run) return "of another run";
  if (log.task != wanted.task) return "of " + log.task;
  if (log.replicas != wanted.replicas) return fmt::format("of {} replicas", log.replicas);
  return log.model != wanted.model ? "of another model, optimizer, number of ps tasks or libtorch"
                                   : "";
}

}  // namespace

struct StepLogReader::Impl {
  Impl(std::string file, RecordReader records)
      : name(std::move(file)), reader(std::move(records)) {}

  const std::string name;
  RecordReader reader;
  std::optional<std::uint64_t> torn;
  bool begun = false;
  bool ended = false;
  bool prepared = false;
  std::int64_t step = 0;
  std::int64_t skipped_batches = 0;

  // The next record, or nothing where the log ends, also if it ends inside one. Returned from
  // within the try: assigned there to a variable outside, g++ 12 loses the variable's first value
  // (decision 0020).
  std::optional<std::string_view> whole_record() {
    try {
      return reader.next();
    } catch (const TornTail& tail) {
      torn = tail.whole_bytes();
      return std::nullopt;
    }
  }

  // Holds the record to its place, and moves on after it.
  void follow(const StepLogRecord& record) {
    if (begun != (record.kind != Kind::kBase)) {
      throw DataLoss("{}", begun ? "it is a second base" : "the first record is no base");
    }
    if (!begun) {
      // Steps are counted on from here.
      if (record.step < 0 || record.skipped_batches < 0 || record.step > kMostSteps ||
          record.skipped_batches > kMostSteps) {
        throw DataLoss("the base is of step {} ({} skipped)", record.step, record.skipped_batches);
      }
      begun = true;
      step = record.step;
      skipped_batches = record.skipped_batches;
      return;
    }
    if (ended) throw DataLoss("it comes behind the end");
    if (record.step != step || record.skipped_batches != skipped_batches) {
      throw DataLoss("it is about step {} ({} skipped), where step {} ({} skipped) is due",
                     record.step, record.skipped_batches, step, skipped_batches);
    }
    switch (record.kind) {
      case Kind::kPrepared:
        prepared = true;
        return;
      case Kind::kCommitted:
        if (!std::exchange(prepared, false)) {
          throw DataLoss("step {} is committed without gradients", step);
        }
        ++(record.is_left_out ? skipped_batches : step);
        return;
      case Kind::kEnded:
        ended = true;
        return;
      default:
        throw DataLoss("it is of a kind {} that is not known here", static_cast<int>(record.kind));
    }
  }
};

StepLogReader::StepLogReader(const Path& file)
    : impl_(std::make_unique<Impl>(file.string(), RecordReader(file, kReaderOptions))) {}

StepLogReader::StepLogReader(std::string_view bytes, const std::string& name)
    : impl_(std::make_unique<Impl>(name, RecordReader(bytes, name, kReaderOptions))) {}

StepLogReader::~StepLogReader() = default;

std::optional<StepLogRecord> StepLogReader::next(std::string_view& body) {
  const std::uint64_t start = impl_->reader.offset();
  const std::optional<std::string_view> bytes = impl_->whole_record();
  if (!bytes) return std::nullopt;
  try {
    const std::string_view head = head_in(*bytes);
    StepLogRecord record = decode_head(head);
    impl_->follow(record);
    body = bytes->substr(sizeof(std::uint32_t) + head.size());
    return record;
  } catch (Error& error) {
    error.add_context(fmt::format("{} at byte {}", impl_->name, start));
    throw;
  }
}

std::optional<std::uint64_t> StepLogReader::torn_at() const { return impl_->torn; }
std::uint64_t StepLogReader::offset() const { return impl_->reader.offset(); }

std::vector<Path> list_step_logs(const Path& folder) {
  std::vector<std::pair<std::uint64_t, Path>> found;
  for (const std::string& name : file_system_for(folder).list(folder)) {
    if (const auto number = number_of(name)) found.emplace_back(*number, folder / name);
  }
  std::ranges::sort(found);
  std::vector<Path> files;
  files.reserve(found.size());
  for (auto& [number, file] : found) files.push_back(std::move(file));
  return files;
}

struct StepLog::Impl {
  Impl(Path where, StepLogOptions log_options) : folder(std::move(where)), options(log_options) {}

  const Path folder;
  const StepLogOptions options;
  StepLogIdentity identity;
  std::unique_ptr<WritableFile> file;
  std::uint64_t base_bytes = 0;
  std::uint64_t step_bytes = 0;

  bool is_of_use(const Path& path, const StepLogIdentity& wanted) const;
  void visit_all(const Path& path, const Visitor& visit);
};

// Looks at the whole log before anybody acts on it: its last record says whether it has ended.
bool StepLog::Impl::is_of_use(const Path& path, const StepLogIdentity& wanted) const {
  StepLogReader reader(path);
  std::string_view body;
  bool begun = false;
  bool ended = false;
  std::string other;
  for (auto record = reader.next(body); record; record = reader.next(body)) {
    if (record->kind == Kind::kBase) other = difference(record->identity, wanted);
    if (!other.empty()) {
      log::warning("{} is {}, and is not used: what this task holds comes from the others",
                   path.string(), other);
      return false;
    }
    begun = true;
    ended = record->kind == Kind::kEnded;
  }
  if (!begun) log::warning("{} has not even a base, and is not used", path.string());
  if (ended) log::info("{} is of a run that has ended, and is not used", path.string());
  return begun && !ended;
}

void StepLog::Impl::visit_all(const Path& path, const Visitor& visit) {
  StepLogReader reader(path);
  std::string_view body;
  base_bytes = 0;
  for (auto record = reader.next(body); record; record = reader.next(body)) {
    visit(*record, body);
    if (record->kind == Kind::kBase) base_bytes = reader.offset();
  }
  step_bytes = reader.offset() - base_bytes;
  if (const auto whole = reader.torn_at()) {
    log::warning("{} ends inside a record, which is cut off at byte {}", path.string(), *whole);
    std::error_code failure;
    std::filesystem::resize_file(path, *whole, failure);
    if (failure) throw_errno(failure.value(), "cutting off the end of " + path.string());
  }
}

StepLog::StepLog(const Path& folder, StepLogOptions options)
    : impl_(std::make_unique<Impl>(strip_file_scheme(folder), options)) {
  if (folder.string().find("://") != std::string::npos && !folder.string().starts_with("file://")) {
    throw InvalidArgument("{}: the log of a ps task needs a folder on a local disk",
                          folder.string());
  }
  file_system_for(impl_->folder).create_directories(impl_->folder);
}

StepLog::~StepLog() = default;

bool StepLog::recover(const StepLogIdentity& identity, const Visitor& visit) {
  const auto files = list_step_logs(impl_->folder);
  if (files.empty() || !impl_->is_of_use(files.back(), identity)) return false;
  impl_->visit_all(files.back(), visit);
  impl_->identity = identity;
  impl_->file = file_system_for(files.back()).append(files.back());
  return true;
}

void StepLog::begin(const StepLogRecord& base, StepLogBody body) {
  const auto before = list_step_logs(impl_->folder);
  const std::uint64_t number =
      before.empty() ? 1 : number_of(before.back().filename().string()).value() + 1;
  const Path path = impl_->folder / fmt::format("{:08}{}", number, kSuffix);
  AtomicFile atomic(path);
  impl_->base_bytes = write_record(atomic.file(), base, body);
  atomic.commit(/*durable=*/false);
  impl_->file = file_system_for(path).append(path);
  impl_->step_bytes = 0;
  impl_->identity = base.identity;
  for (const Path& old : before) file_system_for(old).remove(old);
}

void StepLog::append(const StepLogRecord& record, StepLogBody body) {
  if (!is_open()) {
    throw FailedPrecondition("no log is open in {}", impl_->folder.string());
  }
  try {
    impl_->step_bytes += write_record(*impl_->file, record, body);
  } catch (...) {
    // It may end inside a record: nothing that follows would be found.
    impl_->file.reset();
    throw;
  }
}

bool StepLog::is_open() const { return impl_->file != nullptr; }

bool StepLog::is_due() const {
  return impl_->step_bytes > std::max(impl_->options.most_bytes, 2 * impl_->base_bytes);
}

const Path& StepLog::folder() const { return impl_->folder; }
const StepLogIdentity& StepLog::identity() const { return impl_->identity; }

std::string step_log_run(const Path& model_dir) {
  const Path file = model_dir / "ps_log" / "run";
  if (!file_exists(file)) {
    std::random_device device;
    file_system_for(file).create_directories(file.parent_path());
    write_file_atomically(
        file, fmt::format("{:08x}{:08x}{:08x}{:08x}\n", device(), device(), device(), device()));
  }
  std::string text = read_file(file, /*limit_bytes=*/4096);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const bool is_name = text.size() == 32 && std::ranges::all_of(text, [](unsigned char c) {
                         return std::isxdigit(c) != 0;
                       });
  if (is_name) return text;
  throw DataLoss(
      "{} is damaged: it is to name the run with 32 hexadecimal digits, and {}; remove the folder "
      "{}, and the run goes on from its last checkpoint",
      file.string(),
      text.empty() ? "is empty" : fmt::format("has {} bytes of something else", text.size()),
      file.parent_path().string());
}

}  // namespace muster
