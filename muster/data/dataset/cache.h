#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/dataset/stage.h"
#include "muster/data/records/record.h"

namespace muster {

/// Takes the elements of a first pass; they count once complete() was called, or not at all.
template <typename T>
class CacheWriter {
 public:
  virtual ~CacheWriter() = default;
  virtual void add(const T& value) = 0;
  virtual void complete() = 0;
};

/// Gives the elements back, one by one.
template <typename T>
class CacheReader {
 public:
  virtual ~CacheReader() = default;
  /// The next one, or nothing at the end.
  virtual std::optional<T> next() = 0;
  virtual void seek(std::uint64_t number) = 0;
};

/// Where a cache keeps its elements. Safe to use from any thread.
template <typename T>
class CacheStore {
 public:
  virtual ~CacheStore() = default;
  /// Nothing as long as no pass has been completed.
  virtual std::unique_ptr<CacheReader<T>> reader() = 0;
  virtual std::unique_ptr<CacheWriter<T>> writer() = 0;
  /// With arguments: "cache(train.cache)".
  virtual std::string label() const = 0;
};

/// The input's first pass, kept. It always is the pass of epoch 0, so that every run keeps the same
/// elements; what is to differ from epoch to epoch goes after the cache.
template <typename T>
class CacheStage final : public UnaryStage<T> {
 public:
  CacheStage(std::shared_ptr<const Stage<T>> input, std::unique_ptr<CacheStore<T>> store)
      : UnaryStage<T>(std::move(input)), store_(std::move(store)) {}

  std::string_view kind() const override { return "cache"; }
  std::string label() const override { return store_->label(); }
  std::string where(Origin origin) const override {
    return fmt::format("{} element {}", label(), origin.ordinal);
  }
  std::uint64_t opening_epoch(Origin origin) const override { return origin.epoch; }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  std::vector<Element<T>> collect(const EpochContext& context,
                                  std::span<const Origin> origins) const override {
    const std::unique_ptr<CacheReader<T>> reader = store_->reader();
    if (!reader) return this->collect_by_replay(context, origins, /*ascending=*/true);
    std::vector<Element<T>> elements;
    elements.reserve(origins.size());
    for (const Origin& origin : origins) {
      reader->seek(origin.ordinal);
      std::optional<T> value = reader->next();
      if (!value) throw_missing_element(*this, origin);
      elements.push_back({std::move(*value), origin});
    }
    return elements;
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const CacheStage& stage, const EpochContext& context)
        : StageIterator<T>(stage, context), stage_(stage), context_(context) {}

    std::uint64_t skip(std::uint64_t events) override { return this->skip_by_pulling(events); }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      if (!reader_ && !input_) begin();
      if (reader_) {
        read(out, most);
      } else {
        fill(out, most);
      }
    }
    void do_save(PositionWriter& writer) const override { writer.number(given_); }
    // Where there is nothing to read yet, the pass is made from its start, so that it can be kept.
    void do_restore(PositionReader& reader) override {
      const std::uint64_t given = reader.number();
      begin();
      if (reader_) {
        reader_->seek(given);
        given_ = given;
        return;
      }
      Chunk<T> passed;
      while (given_ < given) {
        passed.clear();
        fill(passed, std::min<std::uint64_t>(given - given_, 256));
        if (passed.empty()) throw_missing_element(stage_, Origin{context_.epoch, given});
      }
    }

   private:
    void begin() {
      reader_ = stage_.store_->reader();
      if (reader_) return;
      input_ = stage_.input().open(context_.input().with_epoch(0));
      writer_ = stage_.store_->writer();
    }
    void read(Chunk<T>& out, std::size_t most) {
      while (out.events() < most) {
        const Origin origin{context_.epoch, given_};
        try {
          std::optional<T> value = reader_->next();
          if (!value) return;
          out.add(std::move(*value), origin);
        } catch (...) {
          out.fail(current_failure(stage_.where(origin)));
        }
        ++given_;
      }
    }
    void fill(Chunk<T>& out, std::size_t most) {
      if (input_->pull(chunk_, most) == 0 && writer_) {
        writer_->complete();
        writer_.reset();
      }
      chunk_.drain(
          [&](Element<T>& element) {
            if (writer_) writer_->add(element.value);
            out.add(std::move(element.value), Origin{context_.epoch, given_++});
          },
          [&](std::exception_ptr error) {
            // A pass with a hole is not kept.
            writer_.reset();
            out.fail(std::move(error));
          });
    }

    const CacheStage& stage_;
    EpochContext context_;
    std::uint64_t given_ = 0;
    std::unique_ptr<CacheReader<T>> reader_;
    std::unique_ptr<StageIterator<T>> input_;
    std::unique_ptr<CacheWriter<T>> writer_;
    Chunk<T> chunk_;
  };

  std::unique_ptr<CacheStore<T>> store_;
};

/// Keeps elements in memory, shared by all passes and copies of the dataset.
template <typename T>
class MemoryCacheStore final : public CacheStore<T> {
 public:
  std::unique_ptr<CacheReader<T>> reader() override {
    std::lock_guard lock(mutex_);
    if (values_ == nullptr) return nullptr;
    return std::make_unique<Reader>(values_);
  }
  std::unique_ptr<CacheWriter<T>> writer() override { return std::make_unique<Writer>(*this); }
  std::string label() const override { return "cache()"; }

 private:
  using Values = std::vector<T>;

  class Reader final : public CacheReader<T> {
   public:
    explicit Reader(std::shared_ptr<const Values> values) : values_(std::move(values)) {}
    std::optional<T> next() override {
      if (next_ >= values_->size()) return std::nullopt;
      return (*values_)[next_++];
    }
    void seek(std::uint64_t number) override { next_ = number; }

   private:
    std::shared_ptr<const Values> values_;
    std::uint64_t next_ = 0;
  };

  class Writer final : public CacheWriter<T> {
   public:
    explicit Writer(MemoryCacheStore& store) : store_(store) {}
    void add(const T& value) override { values_->push_back(value); }
    void complete() override {
      std::lock_guard lock(store_.mutex_);
      if (store_.values_ == nullptr) store_.values_ = std::move(values_);
    }

   private:
    MemoryCacheStore& store_;
    std::shared_ptr<Values> values_ = std::make_shared<Values>();
  };

  std::mutex mutex_;
  std::shared_ptr<const Values> values_;
};

/// How elements become the records of a cache file, and back.
template <typename T>
struct CacheCodec {
  std::function<std::string(const T&)> encode{};
  std::function<T(const Record&)> decode{};
};

/// A cache file: TFRecord with a side index, whole or not there.
class CacheFile {
 public:
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual void add(std::string_view bytes) = 0;
    virtual void complete() = 0;
  };
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual bool next(Record& out) = 0;
    virtual void seek(std::uint64_t number) = 0;
  };

  explicit CacheFile(Path path) : path_(std::move(path)) {}
  const Path& path() const { return path_; }
  /// Nothing if there is no such file.
  std::unique_ptr<Reader> reader() const;
  std::unique_ptr<Writer> writer() const;

 private:
  Path path_;
};

/// Keeps elements in a file, for this run and later ones.
template <typename T>
class FileCacheStore final : public CacheStore<T> {
 public:
  FileCacheStore(Path path, CacheCodec<T> codec)
      : file_(std::move(path)), codec_(std::move(codec)) {}

  std::unique_ptr<CacheReader<T>> reader() override {
    auto reader = file_.reader();
    if (reader == nullptr) return nullptr;
    return std::make_unique<Reader>(codec_, std::move(reader));
  }
  std::unique_ptr<CacheWriter<T>> writer() override {
    return std::make_unique<Writer>(codec_, file_.writer());
  }
  std::string label() const override {
    return fmt::format("cache({})", file_.path().filename().string());
  }

 private:
  class Reader final : public CacheReader<T> {
   public:
    Reader(const CacheCodec<T>& codec, std::unique_ptr<CacheFile::Reader> file)
        : codec_(codec), file_(std::move(file)) {}
    std::optional<T> next() override {
      Record record;
      if (!file_->next(record)) return std::nullopt;
      return codec_.decode(record);
    }
    void seek(std::uint64_t number) override { file_->seek(number); }

   private:
    const CacheCodec<T>& codec_;
    std::unique_ptr<CacheFile::Reader> file_;
  };

  class Writer final : public CacheWriter<T> {
   public:
    Writer(const CacheCodec<T>& codec, std::unique_ptr<CacheFile::Writer> file)
        : codec_(codec), file_(std::move(file)) {}
    void add(const T& value) override { file_->add(codec_.encode(value)); }
    void complete() override { file_->complete(); }

   private:
    const CacheCodec<T>& codec_;
    std::unique_ptr<CacheFile::Writer> file_;
  };

  CacheFile file_;
  CacheCodec<T> codec_;
};

/// The codecs of elements that are bytes already.
CacheCodec<Record> record_codec();
CacheCodec<std::string> string_codec();

}  // namespace muster
