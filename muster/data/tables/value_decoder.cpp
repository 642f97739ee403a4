#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unaligned.h"
#include "muster/data/tables/delta_decoder_internal.h"
#include "muster/data/tables/hybrid_decoder_internal.h"
#include "muster/data/tables/value_decoder_internal.h"

namespace muster::parquet_internal {
namespace {

constexpr std::int32_t kPlain = 0;
constexpr std::int32_t kPlainDictionary = 2;
constexpr std::int32_t kRle = 3;
constexpr std::int32_t kDeltaBinaryPacked = 5;
constexpr std::int32_t kDeltaLengthByteArray = 6;
constexpr std::int32_t kDeltaByteArray = 7;
constexpr std::int32_t kRleDictionary = 8;
constexpr std::int32_t kByteStreamSplit = 9;

/// How many numbers are decoded at a time, on the way to a value of another type.
constexpr std::size_t kStep = 1024;

[[noreturn]] void fail_short() { throw DataLoss("the page has fewer values than it says"); }

std::string_view encoding_name(std::int32_t encoding) {
  constexpr std::string_view kNames[] = {
      "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
      "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
      "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
  if (encoding < 0 || encoding >= static_cast<std::int32_t>(std::size(kNames))) return "of no name";
  return kNames[encoding];
}

[[noreturn]] void fail_encoding(std::int32_t encoding) {
  throw Unimplemented("values are encoded as {} ({}), which muster does not read for this type",
                      encoding_name(encoding), encoding);
}

template <typename T>
class PlainNumbers final : public ValueDecoder<T> {
 public:
  explicit PlainNumbers(std::string_view bytes) : bytes_(bytes) {}
  void read(T* out, std::size_t count) override {
    if (count > bytes_.size() / sizeof(T)) fail_short();
    if (count == 0) return;
    bytes_.copy(reinterpret_cast<char*>(out), count * sizeof(T));
    bytes_.remove_prefix(count * sizeof(T));
  }

 private:
  std::string_view bytes_;
};

class PlainBooleans final : public ValueDecoder<std::uint8_t> {
 public:
  explicit PlainBooleans(std::string_view bytes) : bytes_(bytes) {}
  void read(std::uint8_t* out, std::size_t count) override {
    if (count > bytes_.size() * 8 - at_) fail_short();
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      out[i] = (static_cast<unsigned char>(bytes_[at_ / 8]) >> (at_ % 8)) & 1U;
    }
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

class RleBooleans final : public ValueDecoder<std::uint8_t> {
 public:
  explicit RleBooleans(std::string_view bytes) {
    if (bytes.size() < 4) fail_short();
    const auto size = load_unaligned<std::uint32_t>(&bytes.front());
    if (size > bytes.size() - 4) fail_short();
    numbers_ = HybridDecoder(bytes.substr(4, size), 1);
  }
  void read(std::uint8_t* out, std::size_t count) override {
    std::array<std::uint32_t, kStep> step;
    while (count > 0) {
      const std::size_t some = std::min(count, kStep);
      numbers_.read(step.data(), some);
      std::transform(step.begin(), step.begin() + static_cast<std::ptrdiff_t>(some), out,
                     [](std::uint32_t bit) { return static_cast<std::uint8_t>(bit & 1U); });
      out += some;
      count -= some;
    }
  }

 private:
  HybridDecoder numbers_;
};

class PlainBytes final : public ValueDecoder<std::string_view> {
 public:
  explicit PlainBytes(std::string_view bytes) : bytes_(bytes) {}
  void read(std::string_view* out, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      if (bytes_.size() < 4) fail_short();
      const auto size = load_unaligned<std::uint32_t>(&bytes_.front());
      if (size > bytes_.size() - 4) fail_short();
      out[i] = bytes_.substr(4, size);
      bytes_.remove_prefix(std::size_t{4} + size);
    }
  }

 private:
  std::string_view bytes_;
};

class PlainBytesOfOneLength final : public ValueDecoder<std::string_view> {
 public:
  PlainBytesOfOneLength(std::string_view bytes, std::size_t width) : bytes_(bytes), width_(width) {}
  void read(std::string_view* out, std::size_t count) override {
    if (count > bytes_.size() / width_) fail_short();
    for (std::size_t i = 0; i < count; ++i) out[i] = bytes_.substr(i * width_, width_);
    bytes_.remove_prefix(count * width_);
  }

 private:
  std::string_view bytes_;
  std::size_t width_;
};

template <typename T>
class DictionaryValues final : public ValueDecoder<T> {
 public:
  DictionaryValues(std::string_view bytes, const std::vector<T>& dictionary)
      : dictionary_(dictionary) {
    // A page without values may have no bytes.
    if (bytes.empty()) return;
    places_ = HybridDecoder(bytes.substr(1), static_cast<std::uint8_t>(bytes.front()));
  }
  void read(T* out, std::size_t count) override {
    std::array<std::uint32_t, kStep> step;
    while (count > 0) {
      const HybridDecoder::Run run = places_.next(step.data(), std::min(count, kStep));
      if (run.is_repeated) {
        check(run.value);
        std::fill_n(out, run.count, dictionary_[run.value]);
      } else {
        check(*std::max_element(step.data(), step.data() + run.count));
        const T* const values = dictionary_.data();
        for (std::size_t i = 0; i < run.count; ++i) out[i] = values[step[i]];
      }
      out += run.count;
      count -= run.count;
    }
  }

 private:
  void check(std::uint32_t place) const {
    if (place >= dictionary_.size()) {
      throw DataLoss("value {} of a dictionary of {}", place, dictionary_.size());
    }
  }

  const std::vector<T>& dictionary_;
  HybridDecoder places_;
};

template <typename T>
class DeltaNumbers final : public ValueDecoder<T> {
 public:
  DeltaNumbers(std::string_view bytes, std::size_t most) : numbers_(bytes, most) {}
  void read(T* out, std::size_t count) override {
    std::array<std::uint64_t, kStep> step;
    while (count > 0) {
      const std::size_t some = std::min(count, kStep);
      numbers_.read(step.data(), some);
      for (std::size_t i = 0; i < some; ++i) out[i] = static_cast<T>(step[i]);
      out += some;
      count -= some;
    }
  }

 private:
  DeltaDecoder numbers_;
};

class DeltaLengthBytes final : public ValueDecoder<std::string_view> {
 public:
  DeltaLengthBytes(std::string_view bytes, std::size_t most)
      : lengths_(bytes, most), bytes_(lengths_.rest()) {}
  void read(std::string_view* out, std::size_t count) override {
    std::array<std::uint64_t, kStep> step;
    while (count > 0) {
      const std::size_t some = std::min(count, kStep);
      lengths_.read(step.data(), some);
      for (std::size_t i = 0; i < some; ++i) {
        if (step[i] > bytes_.size()) fail_short();
        out[i] = bytes_.substr(0, step[i]);
        bytes_.remove_prefix(step[i]);
      }
      out += some;
      count -= some;
    }
  }

 private:
  DeltaDecoder lengths_;
  std::string_view bytes_;
};

/// Strings that begin as the one before: put together in memory of their own.
class DeltaBytes final : public ValueDecoder<std::string_view> {
 public:
  DeltaBytes(std::string_view bytes, std::size_t most)
      : prefixes_(bytes, most),
        suffixes_(prefixes_.rest(), most),
        most_bytes_(std::max(kFreeBytes, bytes.size() * kMostGrowth)) {}
  void read(std::string_view* out, std::size_t count) override {
    std::array<std::uint64_t, kStep> prefixes;
    while (count > 0) {
      const std::size_t some = std::min(count, kStep);
      prefixes_.read(prefixes.data(), some);
      suffixes_.read(out, some);
      for (std::size_t i = 0; i < some; ++i) out[i] = last_ = join(prefixes[i], out[i]);
      out += some;
      count -= some;
    }
  }
  std::shared_ptr<const void> owner() const override { return blocks_; }

 private:
  static constexpr std::size_t kFreeBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMostGrowth = 200;
  static constexpr std::size_t kBlockBytes = std::size_t{64} << 10;
  using Blocks = std::vector<std::unique_ptr<char[]>>;

  std::string_view join(std::uint64_t prefix, std::string_view suffix) {
    if (prefix > last_.size()) throw DataLoss("a string begins as a longer one than there is");
    if (prefix == 0) return suffix;
    if (suffix.empty()) return last_.substr(0, prefix);
    char* const place = take(prefix + suffix.size());
    std::memcpy(place, last_.data(), prefix);
    std::memcpy(place + prefix, suffix.data(), suffix.size());
    return {place, prefix + suffix.size()};
  }
  char* take(std::size_t bytes) {
    if (bytes > left_) {
      const std::size_t block = std::max(bytes, kBlockBytes);
      if (block > most_bytes_ - std::min(most_bytes_, total_)) {
        throw ResourceExhausted("a page's strings become more than {} bytes", most_bytes_);
      }
      blocks_->push_back(std::make_unique_for_overwrite<char[]>(block));
      next_ = blocks_->back().get();
      left_ = block;
      total_ += block;
    }
    char* const place = next_;
    next_ += bytes;
    left_ -= bytes;
    return place;
  }

  DeltaDecoder prefixes_;
  DeltaLengthBytes suffixes_;
  std::string_view last_{};
  std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();
  std::size_t most_bytes_;
  std::size_t total_ = 0;
  char* next_ = nullptr;
  std::size_t left_ = 0;
};

/// The first bytes of all values, then the second ones, and so on.
template <typename T>
class SplitNumbers final : public ValueDecoder<T> {
 public:
  explicit SplitNumbers(std::string_view bytes) : bytes_(bytes), stride_(bytes.size() / sizeof(T)) {
    if (bytes.size() % sizeof(T) != 0) fail_short();
  }
  void read(T* out, std::size_t count) override {
    if (count > stride_ - at_) fail_short();
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      std::array<char, sizeof(T)> value;
      for (std::size_t byte = 0; byte < sizeof(T); ++byte)
        value[byte] = bytes_[byte * stride_ + at_];
      std::memcpy(out + i, value.data(), sizeof(T));
    }
  }

 private:
  std::string_view bytes_;
  std::size_t stride_;
  std::size_t at_ = 0;
};

class SplitBytes final : public ValueDecoder<std::string_view> {
 public:
  SplitBytes(std::string_view bytes, std::size_t width)
      : width_(width), joined_(std::make_shared<std::string>(bytes.size(), '\0')) {
    if (bytes.size() % width != 0) fail_short();
    const std::size_t values = bytes.size() / width;
    for (std::size_t byte = 0; byte < width; ++byte) {
      for (std::size_t i = 0; i < values; ++i)
        (*joined_)[i * width + byte] = bytes[byte * values + i];
    }
  }
  void read(std::string_view* out, std::size_t count) override {
    if (count > (joined_->size() - at_) / width_) fail_short();
    for (std::size_t i = 0; i < count; ++i, at_ += width_) {
      out[i] = std::string_view(*joined_).substr(at_, width_);
    }
  }
  std::shared_ptr<const void> owner() const override { return joined_; }

 private:
  std::size_t width_;
  std::shared_ptr<std::string> joined_;
  std::size_t at_ = 0;
};

template <typename T>
std::unique_ptr<ValueDecoder<T>> make_number_decoder(std::int32_t encoding, std::string_view bytes,
                                                     std::size_t count) {
  if (encoding == kPlain) return std::make_unique<PlainNumbers<T>>(bytes);
  if (encoding == kByteStreamSplit) return std::make_unique<SplitNumbers<T>>(bytes);
  if constexpr (std::is_integral_v<T>) {
    if (encoding == kDeltaBinaryPacked) return std::make_unique<DeltaNumbers<T>>(bytes, count);
  }
  fail_encoding(encoding);
}

std::unique_ptr<ValueDecoder<std::string_view>> make_bytes_decoder(std::int32_t encoding,
                                                                   std::string_view bytes,
                                                                   std::size_t count,
                                                                   std::size_t width) {
  switch (encoding) {
    case kPlain:
      if (width == 0) return std::make_unique<PlainBytes>(bytes);
      return std::make_unique<PlainBytesOfOneLength>(bytes, width);
    case kDeltaLengthByteArray:
      return std::make_unique<DeltaLengthBytes>(bytes, count);
    case kDeltaByteArray:
      return std::make_unique<DeltaBytes>(bytes, count);
    case kByteStreamSplit:
      if (width == 0) break;
      return std::make_unique<SplitBytes>(bytes, width);
    default:
      break;
  }
  fail_encoding(encoding);
}

}  // namespace

template <typename T>
std::unique_ptr<ValueDecoder<T>> make_value_decoder(std::int32_t encoding, std::string_view bytes,
                                                    std::size_t count, std::size_t width,
                                                    const std::vector<T>* dictionary) {
  if (encoding == kPlainDictionary || encoding == kRleDictionary) {
    if (dictionary == nullptr) throw DataLoss("values of a dictionary that there is not");
    return std::make_unique<DictionaryValues<T>>(bytes, *dictionary);
  }
  if constexpr (std::is_same_v<T, std::string_view>) {
    return make_bytes_decoder(encoding, bytes, count, width);
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    if (encoding == kPlain) return std::make_unique<PlainBooleans>(bytes);
    if (encoding == kRle) return std::make_unique<RleBooleans>(bytes);
    fail_encoding(encoding);
  } else {
    return make_number_decoder<T>(encoding, bytes, count);
  }
}

template <typename T>
std::vector<T> read_dictionary(std::int32_t encoding, std::string_view bytes, std::size_t count,
                               std::size_t width) {
  if (encoding != kPlain && encoding != kPlainDictionary) fail_encoding(encoding);
  // Before memory is taken for them: even an empty string has a length of four bytes.
  std::size_t least = std::is_same_v<T, std::string_view> ? 4 : sizeof(T);
  if (width > 0) least = width;
  if (count > bytes.size() / least) fail_short();
  std::vector<T> values(count);
  make_value_decoder<T>(kPlain, bytes, count, width, nullptr)->read(values.data(), count);
  return values;
}

template std::unique_ptr<ValueDecoder<std::uint8_t>> make_value_decoder(
    std::int32_t, std::string_view, std::size_t, std::size_t, const std::vector<std::uint8_t>*);
template std::vector<std::uint8_t> read_dictionary(std::int32_t, std::string_view, std::size_t,
                                                   std::size_t);
template std::unique_ptr<ValueDecoder<std::int32_t>> make_value_decoder(
    std::int32_t, std::string_view, std::size_t, std::size_t, const std::vector<std::int32_t>*);
template std::vector<std::int32_t> read_dictionary(std::int32_t, std::string_view, std::size_t,
                                                   std::size_t);
template std::unique_ptr<ValueDecoder<std::int64_t>> make_value_decoder(
    std::int32_t, std::string_view, std::size_t, std::size_t, const std::vector<std::int64_t>*);
template std::vector<std::int64_t> read_dictionary(std::int32_t, std::string_view, std::size_t,
                                                   std::size_t);
template std::unique_ptr<ValueDecoder<float>> make_value_decoder(std::int32_t, std::string_view,
                                                                 std::size_t, std::size_t,
                                                                 const std::vector<float>*);
template std::vector<float> read_dictionary(std::int32_t, std::string_view, std::size_t,
                                            std::size_t);
template std::unique_ptr<ValueDecoder<double>> make_value_decoder(std::int32_t, std::string_view,
                                                                  std::size_t, std::size_t,
                                                                  const std::vector<double>*);
template std::vector<double> read_dictionary(std::int32_t, std::string_view, std::size_t,
                                             std::size_t);
template std::unique_ptr<ValueDecoder<std::string_view>> make_value_decoder(
    std::int32_t, std::string_view, std::size_t, std::size_t, const std::vector<std::string_view>*);
template std::vector<std::string_view> read_dictionary(std::int32_t, std::string_view, std::size_t,
                                                       std::size_t);

}  // namespace muster::parquet_internal
