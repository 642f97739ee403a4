#include "muster/data/dataset/record_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "muster/base/object_store.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/records/sharded_files.h"

namespace muster {
namespace {

/// A file's place in the list and a record's number in it, packed so that both stay small.
struct FileRecord {
  std::size_t file = 0;
  std::uint64_t number = 0;
};

bool is_pattern(const Path& path) {
  return path.native().find_first_of("*?[{") != std::string::npos && !file_exists(path);
}

std::vector<Path> with_patterns_expanded(std::vector<Path> files) {
  if (std::ranges::none_of(files, is_pattern)) return files;
  std::vector<Path> out;
  for (Path& file : files) {
    if (!is_pattern(file)) {
      out.push_back(std::move(file));
      continue;
    }
    const std::string pattern = file.string();
    std::ranges::move(expand_files({&pattern, 1}), std::back_inserter(out));
  }
  return out;
}

/// Where the records of each file lie among those of all.
class FileEnds {
 public:
  void add(std::uint64_t file_records) { ends_.push_back(records() + file_records); }
  std::uint64_t records() const { return ends_.empty() ? 0 : ends_.back(); }
  std::uint64_t begin_of(std::size_t file) const { return file == 0 ? 0 : ends_[file - 1]; }
  std::uint64_t records_of(std::size_t file) const { return ends_[file] - begin_of(file); }
  /// The record at a place among all; after the last file at its end.
  FileRecord find(std::uint64_t place) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), place);
    const auto file = static_cast<std::size_t>(end - ends_.begin());
    return {file, place - begin_of(file)};
  }

 private:
  /// The number of records up to the end of each.
  std::vector<std::uint64_t> ends_;
};

/// Files that one pass has read from the first record to the last, without a failure.
struct KnownFiles {
  /// None where a file's source has random access itself, and where a file is empty.
  std::vector<std::shared_ptr<const RecordTable>> tables{};
  FileEnds ends{};
};

/// Knowledge of files that passes of a stage leave for later ones. Safe to use from any thread.
class FileMemory {
 public:
  /// Who asks once is told when it is known.
  std::shared_ptr<const KnownFiles> ask() {
    std::lock_guard lock(mutex_);
    wanted_ = true;
    return known_;
  }
  /// Whether ask() was called and the files are still not known.
  bool wants_to_learn() const {
    std::lock_guard lock(mutex_);
    return wanted_ && known_ == nullptr;
  }
  void learn(KnownFiles files) {
    auto known = std::make_shared<const KnownFiles>(std::move(files));
    std::lock_guard lock(mutex_);
    known_ = std::move(known);
  }
  void forget() {
    std::lock_guard lock(mutex_);
    known_.reset();
  }

 private:
  mutable std::mutex mutex_;
  bool wanted_ = false;
  std::shared_ptr<const KnownFiles> known_;
};

/// Eight bytes each are kept of the rows of text files: beyond a million rows they are not.
constexpr std::uint64_t kMostKnownRows = std::uint64_t{1} << 20;

class RecordFilesStage final : public Stage<Record> {
 public:
  RecordFilesStage(std::vector<Path> files, RecordSourceOpener open)
      : files_(with_patterns_expanded(std::move(files))), open_(std::move(open)) {
    if (files_.empty()) {
      throw InvalidArgument(
          "a dataset of files needs one file at least; if the list came from glob(), nothing "
          "matched: give the pattern itself instead of the list, and a failure names it");
    }
  }

  std::string_view kind() const override { return "files"; }
  std::string label() const override { return fmt::format("files({})", files_.size()); }
  std::optional<std::uint64_t> size() const override;
  std::string where(Origin origin) const override;
  std::unique_ptr<StageIterator<Record>> open(const EpochContext& context) const override;
  AccessOrObstacle<Record> random_access(const EpochContext& context) const override;
  std::unique_ptr<KnownPass<Record>> known_pass(const EpochContext& context) const override;
  std::vector<Element<Record>> collect(const EpochContext& context,
                                       std::span<const Origin> origins) const override;

  FileMemory& memory() const { return *memory_; }
  const Path& path(std::size_t file) const { return files_[file]; }
  std::size_t file_count() const { return files_.size(); }
  std::unique_ptr<RecordSource> source(std::size_t file) const { return open_(files_[file]); }
  std::uint64_t pack(FileRecord record) const {
    return checked_pack(record.number, files_.size(), record.file, kind());
  }
  FileRecord unpack(std::uint64_t ordinal) const {
    return {static_cast<std::size_t>(ordinal % files_.size()), ordinal / files_.size()};
  }

 private:
  std::vector<Path> files_;
  RecordSourceOpener open_;
  std::unique_ptr<FileMemory> memory_ = std::make_unique<FileMemory>();
};

void save_files(PositionWriter& writer, const RecordFilesStage& stage, const FileRecord& place) {
  writer.number(stage.file_count());
  writer.number(place.file);
  writer.number(place.number);
}

FileRecord restore_files(PositionReader& reader, const RecordFilesStage& stage) {
  const std::uint64_t files = reader.number();
  FileRecord place;
  place.file = reader.number();
  place.number = reader.number();
  if (files != stage.file_count() || place.file > files) {
    throw InvalidArgument("position was saved with {} files, but this pipeline reads {}", files,
                          stage.file_count());
  }
  return place;
}

class RecordFilesPass final : public StageIterator<Record> {
 public:
  RecordFilesPass(const RecordFilesStage& stage, const EpochContext& context)
      : StageIterator<Record>(stage, context), stage_(stage), epoch_(context.epoch) {
    if (stage.memory().wants_to_learn()) learnt_.emplace();
  }

 protected:
  void do_pull(Chunk<Record>& out, std::size_t most) override {
    while (file_ < stage_.file_count() && out.events() < most) {
      if (!source_) {
        open_file(out);
      } else if (!read_record(out)) {
        learn_file();
        next_file();
      }
    }
  }
  void do_save(PositionWriter& writer) const override {
    save_files(writer, stage_, {file_, source_ ? source_->position() : 0});
  }
  void do_restore(PositionReader& reader) override {
    const FileRecord place = restore_files(reader, stage_);
    learnt_.reset();
    file_ = place.file;
    if (place.number == 0 || file_ == stage_.file_count()) return;
    source_ = stage_.source(file_);
    source_->seek(place.number);
  }

 private:
  void next_file() {
    source_.reset();
    records_ = 0;
    ++file_;
    if (learnt_ && file_ == stage_.file_count()) {
      stage_.memory().learn(std::move(*learnt_));
      learnt_.reset();
    }
  }
  void open_file(Chunk<Record>& out) {
    try {
      source_ = stage_.source(file_);
    } catch (...) {
      learnt_.reset();
      out.fail(std::current_exception());
      next_file();
      return;
    }
    begin_to_learn();
  }
  // A file that cannot be learnt is read again, and nothing else is lost.
  void begin_to_learn() try {
    if (!learnt_ || source_->random_access()) return;
    source_->note_places(kMostKnownRows - std::min(kMostKnownRows, learnt_->ends.records()));
  } catch (const Error&) {
    learnt_.reset();
  }
  // The source is at its end.
  void learn_file() try {
    if (!learnt_) return;
    const bool by_itself =
        records_ == 0 || (source_->random_access() && source_->count() == records_ &&
                          !is_remote(stage_.path(file_)));
    const auto table = by_itself ? nullptr : source_->table();
    // A source that has passed over bad records has others behind the numbers.
    if (source_->position() == records_ && (by_itself || table)) {
      learnt_->ends.add(records_);
      learnt_->tables.push_back(table);
    } else {
      learnt_.reset();
    }
  } catch (const Error&) {
    learnt_.reset();
  }
  // False when the file is done: at its end, or where it cannot be read on.
  bool read_record(Chunk<Record>& out) {
    const std::uint64_t before = source_->position();
    try {
      Record record;
      if (!source_->next(record)) return false;
      const FileRecord place{file_, source_->position() - 1};
      out.add(std::move(record), Origin{epoch_, stage_.pack(place)});
      ++records_;
      return true;
    } catch (...) {
      learnt_.reset();
      out.fail(std::current_exception());
      return source_->position() != before;
    }
  }

  const RecordFilesStage& stage_;
  std::uint64_t epoch_;
  std::size_t file_ = 0;
  std::unique_ptr<RecordSource> source_;
  /// That this pass has given of the file.
  std::uint64_t records_ = 0;
  /// As long as nothing stands in the way.
  std::optional<KnownFiles> learnt_;
};

class RecordFilesAccess final : public RandomAccess<Record> {
 public:
  RecordFilesAccess(const RecordFilesStage& stage, std::uint64_t epoch)
      : stage_(stage), epoch_(epoch) {}

  void add(std::unique_ptr<RecordSource> source) {
    ends_.add(source->count().value());
    sources_.push_back(std::move(source));
  }
  std::uint64_t size() const override { return ends_.records(); }
  Element<Record> at(std::uint64_t place) override {
    const FileRecord found = ends_.find(place);
    return {read_at(*sources_[found.file], found.number), Origin{epoch_, stage_.pack(found)}};
  }

  /// The record of this number and no other: a source that passes over bad ones would give the
  /// next.
  static Record read_at(RecordSource& source, std::uint64_t number) {
    Record record;
    if (source.position() != number) source.seek(number);
    if (!source.next(record)) {
      throw DataLoss("{} is not there: the file has become shorter", source.where(number));
    }
    if (source.position() != number + 1) {
      throw DataLoss("{} is damaged", source.where(number));
    }
    return record;
  }

 private:
  const RecordFilesStage& stage_;
  std::uint64_t epoch_;
  std::vector<std::unique_ptr<RecordSource>> sources_;
  FileEnds ends_;
};

class KnownFilesPass final : public KnownPass<Record> {
 public:
  KnownFilesPass(const RecordFilesStage& stage, std::uint64_t epoch,
                 std::shared_ptr<const KnownFiles> known)
      : stage_(stage), epoch_(epoch), known_(std::move(known)), sources_(stage.file_count()) {}

  /// Whether the files are as they were when they were read; opens those without a table.
  bool open() {
    for (std::size_t file = 0; file < sources_.size(); ++file) {
      const auto& table = known_->tables[file];
      if (table == nullptr) sources_[file] = stage_.source(file);
      if (table ? !table->is_current()
                : !is_current(*sources_[file], known_->ends.records_of(file))) {
        return false;
      }
    }
    return true;
  }
  std::uint64_t size() const override { return known_->ends.records(); }
  Element<Record> at(std::uint64_t place) override {
    const FileRecord found = known_->ends.find(place);
    const auto& table = known_->tables[found.file];
    return {table ? table->at(found.number)
                  : RecordFilesAccess::read_at(*sources_[found.file], found.number),
            Origin{epoch_, stage_.pack(found)}};
  }
  Origin origin(std::uint64_t place) const override {
    return {epoch_, stage_.pack(known_->ends.find(place))};
  }
  std::uint64_t place(Origin origin) const override {
    const FileRecord wanted = stage_.unpack(origin.ordinal);
    if (wanted.number >= known_->ends.records_of(wanted.file))
      throw_missing_element(stage_, origin);
    return known_->ends.begin_of(wanted.file) + wanted.number;
  }
  void save(PositionWriter& writer, std::uint64_t given) const override {
    writer.stage(stage_.kind());
    save_files(writer, stage_, known_->ends.find(given));
  }
  std::uint64_t restore(PositionReader& reader) const override {
    reader.expect(stage_.kind());
    const FileRecord at = restore_files(reader, stage_);
    if (at.file == stage_.file_count()) return size();
    // Beyond the end a reader finds nothing more of this file, and continues with the next.
    return known_->ends.begin_of(at.file) + std::min(at.number, known_->ends.records_of(at.file));
  }

 private:
  static bool is_current(RecordSource& source, std::uint64_t records) {
    if (Record first; records == 0) return !source.next(first);
    return source.random_access() && source.count() == records;
  }

  const RecordFilesStage& stage_;
  std::uint64_t epoch_;
  std::shared_ptr<const KnownFiles> known_;
  /// Sources of the files without a table.
  std::vector<std::unique_ptr<RecordSource>> sources_;
};

std::optional<std::uint64_t> RecordFilesStage::size() const {
  std::uint64_t all = 0;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const auto count = source(file)->count();
    if (!count) return std::nullopt;
    all += *count;
  }
  return all;
}

std::string RecordFilesStage::where(Origin origin) const {
  const FileRecord place = unpack(origin.ordinal);
  try {
    return source(place.file)->where(place.number);
  } catch (const Error&) {
    // The failure that is being described is the one to tell; a plainer place will do.
    return fmt::format("{} record {}", files_[place.file].string(), place.number);
  }
}

std::unique_ptr<StageIterator<Record>> RecordFilesStage::open(const EpochContext& context) const {
  return std::make_unique<RecordFilesPass>(*this, context);
}

AccessOrObstacle<Record> RecordFilesStage::random_access(const EpochContext& context) const {
  auto access = std::make_unique<RecordFilesAccess>(*this, context.epoch);
  for (std::size_t file = 0; file < files_.size(); ++file) {
    auto one = source(file);
    const auto count = one->count();
    // An empty file needs no index: nothing in it is ever looked for.
    if (!count || (*count > 0 && !one->random_access())) {
      return {nullptr, fmt::format("{} has no usable index; a TFRecord file gets one with "
                                   "`muster records index {}`",
                                   files_[file].string(), files_[file].string())};
    }
    access->add(std::move(one));
  }
  return {std::move(access), {}};
}

std::unique_ptr<KnownPass<Record>> RecordFilesStage::known_pass(const EpochContext& context) const {
  auto known = memory_->ask();
  if (known == nullptr) return nullptr;
  auto pass = std::make_unique<KnownFilesPass>(*this, context.epoch, std::move(known));
  try {
    if (pass->open()) return pass;
  } catch (const Error&) {
    // A pass that reads says it where it belongs.
  }
  memory_->forget();
  return nullptr;
}

std::vector<Element<Record>> RecordFilesStage::collect(const EpochContext&,
                                                       std::span<const Origin> origins) const {
  // File by file and forwards within each, so that a file without an index is read once.
  std::vector<std::size_t> order(origins.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const FileRecord left = unpack(origins[a].ordinal);
    const FileRecord right = unpack(origins[b].ordinal);
    return std::tie(left.file, left.number) < std::tie(right.file, right.number);
  });
  std::vector<Element<Record>> elements(origins.size());
  std::unique_ptr<RecordSource> open_source;
  std::size_t open_file = files_.size();
  for (const std::size_t i : order) {
    const FileRecord place = unpack(origins[i].ordinal);
    if (place.file != open_file) {
      open_source = source(place.file);
      open_file = place.file;
    }
    elements[i] = {RecordFilesAccess::read_at(*open_source, place.number), origins[i]};
  }
  return elements;
}

}  // namespace

Dataset<Record> from_files(std::vector<Path> files, RecordSourceOpener open) {
  return Dataset<Record>(std::make_shared<RecordFilesStage>(std::move(files), std::move(open)));
}

Dataset<Record> tfrecords(std::vector<Path> files, TFRecordSourceOptions options) {
  return from_files(std::move(files), [options = std::move(options)](const Path& path) {
    return std::make_unique<TFRecordSource>(path, options);
  });
}

Dataset<Record> text_lines(std::vector<Path> files, TextLineOptions options) {
  return from_files(std::move(files),
                    [options](const Path& path) { return open_text_lines(path, options); });
}

Dataset<Record> csv_rows(std::vector<Path> files, CsvSourceOptions options) {
  return from_files(std::move(files),
                    [options](const Path& path) { return open_csv(path, options); });
}

Dataset<Record> fixed_length(std::vector<Path> files, FixedLengthOptions options) {
  return from_files(std::move(files),
                    [options](const Path& path) { return open_fixed_length(path, options); });
}

Dataset<Path> list_files(const Path& pattern) {
  std::vector<Path> files = glob(pattern);
  if (files.empty()) throw NotFound("no file matches {}", pattern.string());
  return from_vector(std::move(files));
}

}  // namespace muster
