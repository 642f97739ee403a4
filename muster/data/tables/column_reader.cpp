#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/unaligned.h"
#include "muster/data/tables/column_reader_internal.h"
#include "muster/data/tables/hybrid_decoder_internal.h"
#include "muster/data/tables/parquet_codec_internal.h"
#include "muster/data/tables/value_decoder_internal.h"

namespace muster::parquet_internal {
namespace {

/// Encoding of levels that is read; the other one is of writers from before 2014.
constexpr std::int32_t kRleLevels = 3;
/// Levels that are decoded at a time.
constexpr std::size_t kLevelStep = 1024;

unsigned bits_of(std::uint32_t most) { return static_cast<unsigned>(std::bit_width(most)); }

std::string_view take_bytes(std::string_view& bytes, std::size_t size) {
  if (size > bytes.size()) throw DataLoss("levels of {} bytes in a page of {}", size, bytes.size());
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

/// Levels with their length before them, as pages of version 1 have them.
std::string_view take_sized(std::string_view& bytes) {
  const std::string_view size = take_bytes(bytes, 4);
  return take_bytes(bytes, load_unaligned<std::uint32_t>(&size.front()));
}

/// Numbers of a page: which values are there, which rows they belong to, and the values.
template <typename T>
struct OpenPage {
  std::size_t left = 0;
  HybridDecoder repetition{};
  HybridDecoder definition{};
  std::unique_ptr<ValueDecoder<T>> values{};
  std::shared_ptr<const void> owner{};
  /// The owners are among those of the column that is being read.
  bool is_owned = false;
};

template <typename T>
using StoredValues = std::conditional_t<std::is_same_v<T, std::string_view>,
                                        std::vector<std::string_view>, TableNumbers<T>>;

// The double nearest to a whole number of up to 128 bits, most significant byte first.
double big_endian_number(std::string_view bytes) {
  if (bytes.empty()) return 0;
  double number = static_cast<signed char>(bytes.front());
  if (bytes.size() <= 8) {
    auto whole = static_cast<std::int64_t>(number);
    for (const char byte : bytes.substr(1)) {
      whole = static_cast<std::int64_t>((static_cast<std::uint64_t>(whole) << 8) |
                                        static_cast<unsigned char>(byte));
    }
    return static_cast<double>(whole);
  }
  for (const char byte : bytes.substr(1)) number = number * 256 + static_cast<unsigned char>(byte);
  return number;
}

float half_to_float(std::string_view bytes) {
  if (bytes.size() != 2) return 0;
  const auto half = load_unaligned<std::uint16_t>(&bytes.front());
  const unsigned exponent = (half >> 10U) & 0x1fU;
  const unsigned fraction = half & 0x3ffU;
  float value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), static_cast<int>(exponent) - 25);
  }
  return (half & 0x8000U) != 0 ? -value : value;
}

// Nanoseconds of the day, then the Julian day.
std::int64_t nanoseconds_since_1970(std::string_view bytes) {
  if (bytes.size() != 12) return 0;
  constexpr std::int64_t kJulianDayOf1970 = 2'440'588;
  constexpr std::uint64_t kNanosecondsOfDay = 86'400'000'000'000;
  const auto nanoseconds = load_unaligned<std::uint64_t>(&bytes.front());
  const auto day = static_cast<std::int64_t>(load_unaligned<std::uint32_t>(bytes.data() + 8));
  return static_cast<std::int64_t>(
      static_cast<std::uint64_t>(day - kJulianDayOf1970) * kNanosecondsOfDay + nanoseconds);
}

template <typename To, typename From, typename Fn>
TableNumbers<To> converted(const From& values, Fn&& fn) {
  TableNumbers<To> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), fn);
  return out;
}

TableValues convert_values(StoredValues<std::int32_t> values, const Leaf& leaf) {
  if (leaf.conversion == Conversion::kUint32) {
    return converted<std::int64_t>(values, [](std::int32_t value) {
      return static_cast<std::int64_t>(static_cast<std::uint32_t>(value));
    });
  }
  if (leaf.conversion == Conversion::kDecimal) {
    const double unit = std::pow(10.0, leaf.scale);
    return converted<double>(values, [unit](std::int32_t value) { return value / unit; });
  }
  return values;
}

TableValues convert_values(StoredValues<std::int64_t> values, const Leaf& leaf) {
  if (leaf.conversion == Conversion::kUint64) {
    const auto bad = std::ranges::find_if(values, [](std::int64_t value) { return value < 0; });
    if (bad != values.end()) {
      throw OutOfRange("{} is more than an int64 holds", static_cast<std::uint64_t>(*bad));
    }
  }
  if (leaf.conversion == Conversion::kDecimal) {
    const double unit = std::pow(10.0, leaf.scale);
    return converted<double>(
        values, [unit](std::int64_t value) { return static_cast<double>(value) / unit; });
  }
  return values;
}

TableValues convert_values(StoredValues<std::string_view> values, const Leaf& leaf) {
  switch (leaf.conversion) {
    case Conversion::kInt96:
      return converted<std::int64_t>(values, nanoseconds_since_1970);
    case Conversion::kHalf:
      return converted<float>(values, half_to_float);
    case Conversion::kDecimal: {
      const double unit = std::pow(10.0, leaf.scale);
      for (const std::string_view value : values) {
        if (value.size() > 16) throw OutOfRange("a decimal number of {} bytes", value.size());
      }
      return converted<double>(
          values, [unit](std::string_view value) { return big_endian_number(value) / unit; });
    }
    default:
      return values;
  }
}

template <typename T>
TableValues convert_values(T values, const Leaf&) {
  return values;
}

/// The value where `is_there` is 1, an empty one where it is 0.
template <typename T>
T kept_if(std::size_t is_there, const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    // Compilers make a branch of a choice between two doubles.
    using Bits =
        std::conditional_t<sizeof(T) == 8, std::uint64_t,
                           std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint8_t>>;
    const auto mask = static_cast<Bits>(Bits{0} - static_cast<Bits>(is_there));
    return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(value) & mask));
  } else {
    return is_there != 0 ? value : T{};
  }
}

/// Puts the values at the front of `data` into the places of those that are valid; the others
/// become empty. There are `present` of them. Without a branch per value: which are missing is
/// seldom foreseen.
template <typename T>
void spread(T* data, const std::uint8_t* valid, std::size_t count, std::size_t present) {
  for (std::size_t i = count; i-- > 0;) {
    const std::size_t is_there = valid[i];
    present -= is_there;
    // Where it is missing, this is the value before, or the first one: not yet overwritten.
    data[i] = kept_if(is_there, data[present]);
  }
}

template <typename T>
class ColumnReaderOf final : public ColumnReader {
 public:
  ColumnReaderOf(PagesOfFile pages, const Leaf& leaf, const ColumnChunk& chunk,
                 const ColumnReaderOptions& options)
      : pages_(std::move(pages)),
        leaf_(leaf),
        chunk_(chunk),
        options_(options),
        offset_(chunk.first_page),
        values_left_(chunk.values) {}

  TableColumn read(std::size_t rows) override {
    return named([&] { return read_rows(rows); });
  }

  void skip(std::uint64_t rows) override {
    named([&] {
      if (is_flat()) rows = skip_pages(rows);
      while (rows > 0) {
        const std::uint64_t some = std::min<std::uint64_t>(rows, kLevelStep);
        read_rows(static_cast<std::size_t>(some));
        rows -= some;
        if (is_flat() && page_.left == 0) rows = skip_pages(rows);
      }
      return 0;
    });
  }

 private:
  using Values = StoredValues<T>;

  bool is_flat() const { return leaf_.list_levels.empty(); }

  template <typename Work>
  auto named(const Work& work) -> decltype(work()) {
    try {
      return work();
    } catch (Error& error) {
      error.add_context(fmt::format("column {}, page at byte {}", leaf_.field.name, page_offset_));
      throw;
    }
  }

  TableColumn read_rows(std::size_t rows) {
    TableColumn column;
    Values values;
    page_.is_owned = false;
    if (is_flat()) {
      read_flat(rows, values, column);
    } else {
      read_lists(rows, values, column);
    }
    column.values = convert_values(std::move(values), leaf_);
    return column;
  }

  /// Skips whole pages without decompressing them; returns the rows left to skip.
  std::uint64_t skip_pages(std::uint64_t rows) {
    if (rows > 0 && page_.left == 0) open_page(&rows);
    return rows;
  }

  // ---- pages ----

  /// Opens the next page of data, after those of fewer values than `skip` has; false at the end.
  bool open_page(std::uint64_t* skip = nullptr) {
    while (values_left_ > 0) {
      page_offset_ = offset_;
      if (offset_ >= pages_.bytes.size()) throw DataLoss("pages go beyond the end");
      std::string_view rest = pages_.bytes.substr(offset_);
      const PageHeader header = parse_page_header(rest);
      rest.remove_prefix(header.header_bytes);
      if (header.stored_bytes > rest.size()) {
        throw DataLoss("a page of {} bytes where {} are left", header.stored_bytes, rest.size());
      }
      const std::string_view stored = rest.substr(0, header.stored_bytes);
      offset_ += header.header_bytes + header.stored_bytes;
      if (header.type == PageType::kIndex) continue;
      if (header.type == PageType::kDictionary) {
        check_crc(header, stored);
        read_dictionary_page(header, stored);
        continue;
      }
      if (header.values > values_left_) {
        throw DataLoss("a page of {} values where {} are left", header.values, values_left_);
      }
      values_left_ -= header.values;
      if (skip != nullptr && header.values <= *skip) {
        *skip -= header.values;
        if (*skip == 0) return true;
        continue;
      }
      if (header.values == 0) continue;
      check_crc(header, stored);
      begin_page(header, stored);
      return true;
    }
    return false;
  }

  void check_crc(const PageHeader& header, std::string_view stored) const {
    if (!header.has_crc || !options_.verify_checksums) return;
    const auto crc =
        ::crc32(0, reinterpret_cast<const Bytef*>(stored.data()), static_cast<uInt>(stored.size()));
    if (crc != header.crc) throw DataLoss("the page's checksum does not match");
  }

  PageBytes plain_page(std::string_view stored, std::size_t plain_bytes, bool is_compressed) const {
    if (!is_compressed || chunk_.codec == 0) return {stored, pages_.owner};
    return decompress_page(chunk_.codec, stored, plain_bytes);
  }

  void read_dictionary_page(const PageHeader& header, std::string_view stored) {
    if (dictionary_) throw DataLoss("a second dictionary");
    const PageBytes page = plain_page(stored, header.plain_bytes, true);
    dictionary_ = read_dictionary<T>(header.encoding, page.bytes, header.values, value_width());
    dictionary_owner_ = page.owner;
  }

  std::size_t value_width() const {
    if (leaf_.physical == PhysicalType::kInt96) return 12;
    return leaf_.width;
  }

  void begin_page(const PageHeader& header, std::string_view stored) {
    OpenPage<T> page;
    page.left = header.values;
    PageBytes plain;
    if (header.type == PageType::kDataV2) {
      page.repetition = levels(take_bytes(stored, header.repetition_bytes), most_repetition());
      page.definition = levels(take_bytes(stored, header.definition_bytes), leaf_.max_definition);
      const std::size_t level_bytes =
          std::size_t{header.repetition_bytes} + header.definition_bytes;
      if (level_bytes > header.plain_bytes) throw DataLoss("levels longer than their page");
      // A page without values may have no compressed bytes.
      plain = plain_page(stored, header.plain_bytes - level_bytes,
                         header.is_compressed && !stored.empty());
    } else {
      plain = plain_page(stored, header.plain_bytes, true);
      if (most_repetition() > 0) {
        check_level_encoding(header.repetition_encoding);
        page.repetition = levels(take_sized(plain.bytes), most_repetition());
      }
      if (leaf_.max_definition > 0) {
        check_level_encoding(header.definition_encoding);
        page.definition = levels(take_sized(plain.bytes), leaf_.max_definition);
      }
    }
    page.values = make_value_decoder<T>(header.encoding, plain.bytes, header.values, value_width(),
                                        dictionary_ ? &*dictionary_ : nullptr);
    page.owner = plain.owner;
    page_ = std::move(page);
  }

  std::uint32_t most_repetition() const {
    return static_cast<std::uint32_t>(leaf_.list_levels.size());
  }
  static HybridDecoder levels(std::string_view bytes, std::uint32_t most) {
    return {bytes, bits_of(most)};
  }
  static void check_level_encoding(std::int32_t encoding) {
    if (encoding != kRleLevels) {
      throw Unimplemented("levels are encoded as {}, which muster cannot read", encoding);
    }
  }

  // ---- values ----

  void own_page(TableColumn& column) {
    if (page_.is_owned || !std::is_same_v<T, std::string_view>) return;
    page_.is_owned = true;
    column.owners.push_back(page_.owner);
    if (auto owner = page_.values->owner()) column.owners.push_back(std::move(owner));
    if (dictionary_owner_) column.owners.push_back(dictionary_owner_);
  }

  void read_flat(std::size_t rows, Values& values, TableColumn& column) {
    values.resize(rows);
    std::size_t at = 0;
    while (at < rows) {
      if (page_.left == 0 && !open_page()) throw DataLoss("there are fewer rows than it says");
      own_page(column);
      const std::size_t some = std::min(rows - at, page_.left);
      if (leaf_.max_definition == 0) {
        page_.values->read(values.data() + at, some);
      } else {
        read_optional(values, at, some, column.valid);
      }
      page_.left -= some;
      at += some;
    }
  }

  /// Values of which some may be missing, into `values` from place `at`.
  void read_optional(Values& values, std::size_t at, std::size_t count,
                     std::vector<std::uint8_t>& valid) {
    std::array<std::uint32_t, kLevelStep> step;
    std::array<std::uint8_t, kLevelStep> is_there;
    while (count > 0) {
      // A run of all may be longer than what packed levels have room for.
      const std::size_t most = std::min(count, kLevelStep);
      const bool are_flags = leaf_.max_definition == 1;
      const HybridDecoder::Run run = are_flags ? page_.definition.next_flags(is_there.data(), most)
                                               : page_.definition.next(step.data(), most);
      if (run.is_repeated) {
        check_definition(run.value);
        const bool are_there = run.value == leaf_.max_definition;
        if (are_there) {
          page_.values->read(values.data() + at, run.count);
        } else {
          std::fill_n(values.data() + at, run.count, T{});
        }
        note_valid(valid, values.size(), at, run.count, are_there);
      } else {
        if (!are_flags) find_present(step, is_there, run.count);
        read_present(values.data() + at, is_there, run.count);
        if (valid.empty()) valid.assign(values.size(), 1);
        std::copy_n(is_there.begin(), run.count, valid.begin() + static_cast<std::ptrdiff_t>(at));
      }
      at += run.count;
      count -= run.count;
    }
  }

  void find_present(const std::array<std::uint32_t, kLevelStep>& definition,
                    std::array<std::uint8_t, kLevelStep>& is_there, std::size_t count) const {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      most = std::max(most, definition[i]);
      is_there[i] = definition[i] == leaf_.max_definition ? 1 : 0;
    }
    check_definition(most);
  }

  void read_present(T* values, const std::array<std::uint8_t, kLevelStep>& is_there,
                    std::size_t count) {
    std::size_t present = 0;
    for (std::size_t i = 0; i < count; ++i) present += is_there[i];
    page_.values->read(values, present);
    if (present < count) spread(values, is_there.data(), count, present);
  }

  void check_definition(std::uint32_t level) const {
    if (level > leaf_.max_definition) {
      throw DataLoss("a definition level of {}, more than {}", level, leaf_.max_definition);
    }
  }

  static void note_valid(std::vector<std::uint8_t>& valid, std::size_t all, std::size_t at,
                         std::size_t count, bool are_there) {
    if (valid.empty()) {
      if (are_there) return;
      valid.assign(all, 1);
    }
    std::fill_n(valid.begin() + static_cast<std::ptrdiff_t>(at), count, are_there ? 1 : 0);
  }

  // ---- lists ----

  /// Levels of values that were decoded and are not used up: of one page.
  struct Levels {
    std::array<std::uint32_t, kLevelStep> repetition;
    std::array<std::uint32_t, kLevelStep> definition;
    std::size_t at = 0;
    std::size_t end = 0;
  };

  bool refill_levels(TableColumn& column) {
    if (page_.left == 0 && !open_page()) return false;
    own_page(column);
    const std::size_t some = std::min(page_.left, kLevelStep);
    page_.repetition.read(levels_.repetition.data(), some);
    page_.definition.read(levels_.definition.data(), some);
    for (std::size_t i = 0; i < some; ++i) {
      check_definition(levels_.definition[i]);
      if (levels_.repetition[i] > most_repetition()) {
        throw DataLoss("a repetition level of {}, more than {}", levels_.repetition[i],
                       most_repetition());
      }
    }
    page_.left -= some;
    levels_.at = 0;
    levels_.end = some;
    return true;
  }

  void read_lists(std::size_t rows, Values& values, TableColumn& column) {
    column.splits.resize(leaf_.list_levels.size());
    std::vector<std::int64_t> counts(leaf_.list_levels.size(), 0);
    std::size_t begun = 0;
    bool is_at_end = false;
    while (!is_at_end) {
      if (levels_.at == levels_.end && !refill_levels(column)) break;
      own_page(column);
      is_at_end = read_list_levels(rows, begun, counts, column);
      read_list_values(values, column.valid);
    }
    if (begun < rows) throw DataLoss("there are fewer rows than it says");
    for (std::size_t level = 0; level < counts.size(); ++level) {
      column.splits[level].push_back(counts[level]);
    }
  }

  /// Goes through levels up to the row after the wanted ones; whether it came there. Notes in
  /// present_ which values there are.
  bool read_list_levels(std::size_t rows, std::size_t& begun, std::vector<std::int64_t>& counts,
                        TableColumn& column) {
    present_.clear();
    for (; levels_.at < levels_.end; ++levels_.at) {
      const std::uint32_t repetition = levels_.repetition[levels_.at];
      const std::uint32_t definition = levels_.definition[levels_.at];
      if (repetition == 0) {
        if (begun == rows) return true;
        ++begun;
      } else if (begun == 0) {
        throw DataLoss("a list goes on where a row should begin");
      }
      add_to_lists(repetition, definition, counts, column);
    }
    return false;
  }

  void add_to_lists(std::uint32_t repetition, std::uint32_t definition,
                    std::vector<std::int64_t>& counts, TableColumn& column) {
    const auto& list_levels = leaf_.list_levels;
    // Lists that begin here: those inside the element that the value belongs to.
    for (std::size_t level = repetition; level < list_levels.size(); ++level) {
      if (level > 0 && definition < list_levels[level - 1]) break;
      column.splits[level].push_back(counts[level]);
    }
    const std::size_t outermost = repetition == 0 ? 0 : repetition - 1;
    for (std::size_t level = outermost; level < list_levels.size(); ++level) {
      if (definition >= list_levels[level]) ++counts[level];
    }
    if (definition >= list_levels.back()) {
      present_.push_back(definition == leaf_.max_definition ? 1 : 0);
    }
  }

  void read_list_values(Values& values, std::vector<std::uint8_t>& valid) {
    const std::size_t before = values.size();
    const std::size_t count = present_.size();
    if (count > options_.max_block_values - std::min(before, options_.max_block_values)) {
      throw ResourceExhausted("lists of more than {} values in one block; lower block_rows",
                              options_.max_block_values);
    }
    values.resize(before + count);
    const auto there = static_cast<std::size_t>(std::ranges::count(present_, std::uint8_t{1}));
    page_.values->read(values.data() + before, there);
    if (there < count) {
      spread(values.data() + before, present_.data(), count, there);
      if (valid.empty()) valid.assign(before, 1);
    }
    if (!valid.empty() || there < count)
      valid.insert(valid.end(), present_.begin(), present_.end());
  }

  PagesOfFile pages_;
  const Leaf& leaf_;
  const ColumnChunk& chunk_;
  ColumnReaderOptions options_;
  std::uint64_t offset_;
  std::uint64_t page_offset_ = 0;
  /// In pages that are not open yet.
  std::uint64_t values_left_;
  std::optional<std::vector<T>> dictionary_{};
  std::shared_ptr<const void> dictionary_owner_{};
  OpenPage<T> page_{};
  Levels levels_{};
  /// 1 for a value of the page that is there, 0 for one that is missing.
  std::vector<std::uint8_t> present_{};
};

template <typename T>
std::unique_ptr<ColumnReader> make_reader_of(PagesOfFile pages, const Leaf& leaf,
                                             const ColumnChunk& chunk,
                                             const ColumnReaderOptions& options) {
  return std::make_unique<ColumnReaderOf<T>>(std::move(pages), leaf, chunk, options);
}

}  // namespace

std::unique_ptr<ColumnReader> make_column_reader(PagesOfFile pages, const Leaf& leaf,
                                                 const ColumnChunk& chunk,
                                                 const ColumnReaderOptions& options) {
  const std::string& obstacle = leaf.obstacle.empty() ? chunk.obstacle : leaf.obstacle;
  if (!obstacle.empty()) {
    throw Unimplemented("column {} cannot be read: {}; name the other columns", leaf.field.name,
                        obstacle);
  }
  if (!is_known_codec(chunk.codec)) {
    throw Unimplemented(
        "column {} is compressed with {}, which muster does not read; there are SNAPPY, GZIP and "
        "ZSTD",
        leaf.field.name, codec_name(chunk.codec));
  }
  switch (leaf.physical) {
    case PhysicalType::kBoolean:
      return make_reader_of<std::uint8_t>(std::move(pages), leaf, chunk, options);
    case PhysicalType::kInt32:
      return make_reader_of<std::int32_t>(std::move(pages), leaf, chunk, options);
    case PhysicalType::kInt64:
      return make_reader_of<std::int64_t>(std::move(pages), leaf, chunk, options);
    case PhysicalType::kFloat:
      return make_reader_of<float>(std::move(pages), leaf, chunk, options);
    case PhysicalType::kDouble:
      return make_reader_of<double>(std::move(pages), leaf, chunk, options);
    case PhysicalType::kInt96:
    case PhysicalType::kByteArray:
    case PhysicalType::kFixedLengthByteArray:
      break;
  }
  return make_reader_of<std::string_view>(std::move(pages), leaf, chunk, options);
}

}  // namespace muster::parquet_internal
