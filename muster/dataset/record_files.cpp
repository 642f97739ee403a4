#include "muster/dataset/record_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "muster/dataset/dataset.h"
#include "muster/records/sharded_files.h"

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

class RecordFilesStage final : public Stage<Record> {
 public:
  RecordFilesStage(std::vector<Path> files, RecordSourceOpener open)
      : files_(with_patterns_expanded(std::move(files))), open_(std::move(open)) {
    if (files_.empty()) {
      throw InvalidArgument(
          "a dataset of files needs one file at least; if the list came from glob(), nothing "
          "matched: give the pattern itself in the place of the list, and a failure names it");
    }
  }

  std::string_view kind() const override { return "files"; }
  std::string label() const override { return fmt::format("files({})", files_.size()); }
  std::optional<std::uint64_t> size() const override;
  std::string where(Origin origin) const override;
  std::unique_ptr<StageIterator<Record>> open(const EpochContext& context) const override;
  AccessOrObstacle<Record> random_access(const EpochContext& context) const override;
  std::vector<Element<Record>> collect(const EpochContext& context,
                                       std::span<const Origin> origins) const override;

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
};

class RecordFilesPass final : public StageIterator<Record> {
 public:
  RecordFilesPass(const RecordFilesStage& stage, const EpochContext& context)
      : StageIterator<Record>(stage, context), stage_(stage), epoch_(context.epoch) {}

 protected:
  void do_pull(Chunk<Record>& out, std::size_t most) override {
    while (file_ < stage_.file_count() && out.events() < most) {
      if (!source_) {
        open_file(out);
      } else if (!read_record(out)) {
        next_file();
      }
    }
  }
  void do_save(PositionWriter& writer) const override {
    writer.number(stage_.file_count());
    writer.number(file_);
    writer.number(source_ ? source_->position() : 0);
  }
  void do_restore(PositionReader& reader) override {
    const std::uint64_t files = reader.number();
    file_ = reader.number();
    const std::uint64_t number = reader.number();
    if (files != stage_.file_count() || file_ > files) {
      throw InvalidArgument("position was saved with {} files, but this pipeline reads {}", files,
                            stage_.file_count());
    }
    if (number == 0 || file_ == files) return;
    source_ = stage_.source(file_);
    source_->seek(number);
  }

 private:
  void next_file() {
    source_.reset();
    ++file_;
  }
  void open_file(Chunk<Record>& out) {
    try {
      source_ = stage_.source(file_);
    } catch (...) {
      out.fail(std::current_exception());
      next_file();
    }
  }
  // False when the file is done: at its end, or where it cannot be read on.
  bool read_record(Chunk<Record>& out) {
    const std::uint64_t before = source_->position();
    try {
      Record record;
      if (!source_->next(record)) return false;
      const FileRecord place{file_, source_->position() - 1};
      out.add(std::move(record), Origin{epoch_, stage_.pack(place)});
      return true;
    } catch (...) {
      out.fail(std::current_exception());
      return source_->position() != before;
    }
  }

  const RecordFilesStage& stage_;
  std::uint64_t epoch_;
  std::size_t file_ = 0;
  std::unique_ptr<RecordSource> source_;
};

class RecordFilesAccess final : public RandomAccess<Record> {
 public:
  RecordFilesAccess(const RecordFilesStage& stage, std::uint64_t epoch)
      : stage_(stage), epoch_(epoch) {}

  void add(std::unique_ptr<RecordSource> source) {
    ends_.push_back(size() + source->count().value());
    sources_.push_back(std::move(source));
  }
  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Element<Record> at(std::uint64_t place) override {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), place);
    const auto file = static_cast<std::size_t>(end - ends_.begin());
    const std::uint64_t number = place - (file == 0 ? 0 : ends_[file - 1]);
    return {read_at(*sources_[file], number), Origin{epoch_, stage_.pack({file, number})}};
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
  std::vector<std::uint64_t> ends_;
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
  return from_files(std::move(files), [options = std::move(options)](const Path& path) {
    return open_text_lines(path, options);
  });
}

Dataset<Record> csv_rows(std::vector<Path> files, CsvSourceOptions options) {
  return from_files(std::move(files), [options = std::move(options)](const Path& path) {
    return open_csv(path, options);
  });
}

Dataset<Record> fixed_length(std::vector<Path> files, FixedLengthOptions options) {
  return from_files(std::move(files), [options = std::move(options)](const Path& path) {
    return open_fixed_length(path, options);
  });
}

Dataset<Path> list_files(const Path& pattern) {
  std::vector<Path> files = glob(pattern);
  if (files.empty()) throw NotFound("no file matches {}", pattern.string());
  return from_vector(std::move(files));
}

}  // namespace muster
