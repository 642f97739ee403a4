#include "muster/data/records/cifar10_pickle.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/compression.h"

namespace muster {
namespace {

/// Ten times the largest file of the data set.
constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{320} << 20;
constexpr std::size_t kMaxGlobalBytes = 128;

/// The opcodes of the pickle protocols that can occur.
enum Opcode : std::uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kReduce = 'R',
  kBuild = 'b',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt1 = 'K',
  kInt2 = 'M',
  kInt4 = 'J',
  kShortString = 'U',
  kString = 'T',
  kShortUnicode = 0x8C,
  kUnicode = 'X',
  kShortBytes = 'C',
  kBytes = 'B',
  kBytes8 = 0x8E,
  kPut = 'q',
  kLongPut = 'r',
  kMemoize = 0x94,
  kGet = 'h',
  kLongGet = 'j',
};

/// The things that a pickle of CIFAR-10 names; it can name nothing else.
enum class Global : std::uint8_t { kReconstruct, kNdarray, kDtype, kEncode };

std::optional<Global> known_global(std::string_view module, std::string_view name) {
  const bool multiarray = module == "numpy.core.multiarray" || module == "numpy._core.multiarray";
  if (multiarray && name == "_reconstruct") return Global::kReconstruct;
  if (module == "numpy" && name == "ndarray") return Global::kNdarray;
  if (module == "numpy" && name == "dtype") return Global::kDtype;
  if (module == "_codecs" && name == "encode") return Global::kEncode;
  return std::nullopt;
}

/// Value that can stand in a memo and be fetched again.
struct Memo {
  std::optional<std::string_view> text{};
  std::optional<Global> global{};
};

/// Reads a pickle by the grammar of the two kinds of files, from left to right. Nothing is
/// interpreted: a rule either finds the opcodes it stands for or throws with the offset.
class Recogniser {
 public:
  Recogniser(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  /// Calls read_value(key) for every item of the dictionary that the file is. It reads the value.
  template <typename ReadValue>
  void dictionary(ReadValue read_value) {
    expect(kProto, "a pickle of protocol 2 to 4");
    const auto protocol = static_cast<std::uint8_t>(take(1)[0]);
    if (protocol < 2 || protocol > 4) fail(fmt::format("protocol {}, known are 2 to 4", protocol));
    expect(kEmptyDict, "a dictionary");
    put({});
    while (!accept(kStop)) {
      if (!accept(kMark)) {
        read_value(text());
        expect(kSetItem, "the end of an item");
        continue;
      }
      while (!accept(kSetItems)) read_value(text());
    }
    if (at_ != bytes_.size()) fail("bytes behind the end of the pickle");
  }

  /// Calls read_item() for every item of a list, which reads it.
  template <typename ReadItem>
  void list(ReadItem read_item) {
    expect(kEmptyList, "a list");
    put({});
    for (;;) {
      if (accept(kMark)) {
        while (!accept(kAppends)) read_item();
      } else if (!single_item(read_item)) {
        return;
      }
    }
  }

  std::int64_t integer() {
    if (accept(kInt1)) return static_cast<std::int64_t>(little_endian(1));
    if (accept(kInt2)) return static_cast<std::int64_t>(little_endian(2));
    if (accept(kInt4)) return static_cast<std::int32_t>(little_endian(4));
    fail("an integer was expected");
  }

  /// A string of any kind, also one fetched from the memo.
  std::string_view text() {
    if (const auto fetched = get()) {
      if (!fetched->text) fail("the memo holds no string there");
      return *fetched->text;
    }
    const std::string_view value = plain_text();
    put({.text = value});
    return value;
  }

  /// The array of the pixels: N x 3,072 bytes.
  std::string pixels() {
    global(Global::kReconstruct);
    global(Global::kNdarray);
    expect_integer(0);
    expect_tuple(kTuple1);
    if (bytes() != "b") fail("_reconstruct of another kind");
    expect_tuple(kTuple3);
    expect(kReduce, "the call of _reconstruct");
    put({});
    return array_state();
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw DataLoss("{}: not a CIFAR-10 pickle at offset {}: {}", name_, at_, what);
  }

 private:
  std::size_t left() const { return bytes_.size() - at_; }

  std::string_view take(std::uint64_t count) {
    if (count > left()) fail(fmt::format("truncated: {} bytes where {} are left", count, left()));
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  std::uint64_t little_endian(std::size_t count) {
    const std::string_view raw = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(raw[i]);
    return value;
  }

  /// Protocol 4 cuts the pickle into frames, which mean nothing to a file that is in memory.
  void skip_frame() {
    while (left() > 0 && static_cast<std::uint8_t>(bytes_[at_]) == kFrame) {
      ++at_;
      const std::uint64_t length = little_endian(8);
      if (length > left()) fail(fmt::format("frame of {} bytes where {} are left", length, left()));
    }
  }

  bool accept(Opcode wanted) {
    skip_frame();
    if (left() == 0 || static_cast<std::uint8_t>(bytes_[at_]) != wanted) return false;
    ++at_;
    return true;
  }

  void expect(Opcode wanted, std::string_view what) {
    if (!accept(wanted)) fail(fmt::format("{} was expected", what));
  }

  void expect_integer(std::int64_t wanted) {
    const std::int64_t found = integer();
    if (found != wanted) fail(fmt::format("{} where {} was expected", found, wanted));
  }

  void expect_tuple(Opcode opcode) {
    expect(opcode, "a tuple");
    put({});
  }

  /// Stores the value just read, if the pickle does.
  void put(Memo value) {
    std::uint64_t index = memo_.size();
    if (accept(kPut)) {
      index = little_endian(1);
    } else if (accept(kLongPut)) {
      index = little_endian(4);
    } else if (!accept(kMemoize)) {
      return;
    }
    // Picklers number in order, from 0 or from 1; that bounds the memory a number can ask for.
    if (index > memo_.size() + 1) fail(fmt::format("memo {} out of order", index));
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = value;
  }

  std::optional<Memo> get() {
    std::uint64_t index = 0;
    if (accept(kGet)) {
      index = little_endian(1);
    } else if (accept(kLongGet)) {
      index = little_endian(4);
    } else {
      return std::nullopt;
    }
    if (index >= memo_.size()) fail(fmt::format("memo {} was never stored", index));
    return memo_[index];
  }

  std::string_view plain_text() {
    const auto found = optional_text();
    if (!found) fail("a string was expected");
    return *found;
  }

  std::optional<std::string_view> optional_text() {
    if (accept(kShortString) || accept(kShortUnicode) || accept(kShortBytes)) {
      return take(little_endian(1));
    }
    if (accept(kString) || accept(kUnicode) || accept(kBytes)) return take(little_endian(4));
    if (accept(kBytes8)) return take(little_endian(8));
    return std::nullopt;
  }

  /// One item and its append opcode, or nothing read at all: in a dictionary the key of the next
  /// item may follow a list, and looks like an item until then.
  template <typename ReadItem>
  bool single_item(ReadItem& read_item) {
    const std::size_t start = at_;
    const bool is_item = skip_item() && accept(kAppend);
    at_ = start;
    if (!is_item) return false;
    read_item();
    expect(kAppend, "the end of a list item");
    return true;
  }

  bool skip_item() {
    if (accept(kInt1)) return take(1), true;
    if (accept(kInt2)) return take(2), true;
    if (accept(kInt4)) return take(4), true;
    if (get()) return true;
    if (!optional_text()) return false;
    skip_put();
    return true;
  }

  void skip_put() {
    if (accept(kPut)) {
      take(1);
    } else if (accept(kLongPut)) {
      take(4);
    } else {
      accept(kMemoize);
    }
  }

  void global(Global wanted) {
    const auto fetched = get();
    if (fetched && !fetched->text) {
      if (fetched->global != wanted) fail("the memo holds another thing there");
      return;
    }
    std::optional<Global> found;
    if (fetched) {
      found = stack_global(*fetched->text);
    } else {
      found = accept(kGlobal) ? line_global() : stack_global(text());
    }
    if (found != wanted) fail("a name that does not belong there");
    put({.global = found});
  }

  std::optional<Global> line_global() {
    const std::string_view module = line();
    return known_global(module, line());
  }

  /// The module's name has been read.
  std::optional<Global> stack_global(std::string_view module) {
    const std::string_view name = text();
    expect(kStackGlobal, "a global name");
    return known_global(module, name);
  }

  std::string_view line() {
    const std::size_t length = bytes_.substr(at_, kMaxGlobalBytes).find('\n');
    if (length == std::string_view::npos) fail("a name that does not end");
    const std::string_view value = take(length);
    take(1);
    return value;
  }

  /// Bytes: as such, or as protocol 2 of Python 3 spells them, _codecs.encode(text, 'latin1').
  std::string bytes() {
    if (!at_encode()) return std::string(text());
    global(Global::kEncode);
    const std::string_view utf8 = text();
    if (text() != "latin1") fail("another encoding than latin1");
    expect_tuple(kTuple2);
    expect(kReduce, "the call of encode");
    put({});
    return to_latin1(utf8);
  }

  bool at_encode() {
    skip_frame();
    if (left() > 0 && bytes_[at_] == kGlobal) return true;
    const std::size_t start = at_;
    const auto fetched = get();
    at_ = start;
    return fetched && fetched->global;
  }

  std::string to_latin1(std::string_view utf8) const {
    std::string out;
    out.reserve(utf8.size());
    for (std::size_t i = 0; i < utf8.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(utf8[i]);
      if (byte < 0x80) {
        out.push_back(utf8[i]);
        continue;
      }
      // Two bytes, 110000xx 10xxxxxx, are all that latin1 needs.
      const bool pair =
          (byte & 0xFC) == 0xC0 && i + 1 < utf8.size() && (utf8[i + 1] & 0xC0) == 0x80;
      if (!pair) fail("bytes that are not latin1");
      out.push_back(static_cast<char>(byte << 6 | (utf8[++i] & 0x3F)));
    }
    return out;
  }

  /// (1, (N, 3072), dtype('uint8'), False, bytes), and its BUILD.
  std::string array_state() {
    expect(kMark, "the state of the array");
    expect_integer(1);
    const std::int64_t rows = integer();
    expect_integer(kCifar10ImageBytes);
    expect_tuple(kTuple2);
    byte_dtype();
    expect(kFalse, "C order");
    std::string data = bytes();
    if (rows < 0 || data.size() != static_cast<std::uint64_t>(rows) * kCifar10ImageBytes) {
      fail(fmt::format("{} bytes of pixels for {} pictures of {}", data.size(), rows,
                       kCifar10ImageBytes));
    }
    expect_tuple(kTuple);
    expect(kBuild, "the end of the array");
    return data;
  }

  /// dtype('u1', 0, 1) with the state (3, '|', None, None, None, -1, -1, 0).
  void byte_dtype() {
    global(Global::kDtype);
    if (text() != "u1") fail("pixels of another type than unsigned bytes");
    flag(false);
    flag(true);
    expect_tuple(kTuple3);
    expect(kReduce, "the call of dtype");
    put({});
    expect(kMark, "the state of dtype");
    expect_integer(3);
    if (text() != "|") fail("a byte order");
    for (int i = 0; i < 3; ++i) expect(kNone, "None");
    expect_integer(-1);
    expect_integer(-1);
    expect_integer(0);
    expect_tuple(kTuple);
    expect(kBuild, "the end of dtype");
  }

  /// Older numpy writes 0 and 1, newer one False and True.
  void flag(bool wanted) {
    if (!accept(wanted ? kTrue : kFalse)) expect_integer(wanted ? 1 : 0);
  }

  std::string_view bytes_;
  std::string_view name_;
  std::size_t at_ = 0;
  std::vector<Memo> memo_{};
};

/// A list of strings. A memo makes copies cheap to ask for, so their total is bounded by the file.
std::vector<std::string> read_strings(Recogniser& pickle, std::size_t limit_bytes) {
  std::vector<std::string> strings;
  std::size_t total = 0;
  pickle.list([&] {
    const std::string_view text = pickle.text();
    total += text.size();
    if (total > limit_bytes) pickle.fail("strings that are larger than the file");
    strings.emplace_back(text);
  });
  return strings;
}

std::vector<std::uint8_t> read_labels(Recogniser& pickle) {
  std::vector<std::uint8_t> labels;
  pickle.list([&] {
    const std::int64_t label = pickle.integer();
    if (label < 0 || label >= static_cast<std::int64_t>(kCifar10Classes)) {
      pickle.fail(fmt::format("label {} of picture {} is not below {}", label, labels.size(),
                              kCifar10Classes));
    }
    labels.push_back(static_cast<std::uint8_t>(label));
  });
  return labels;
}

void check_counts(const Cifar10Pickle& read, std::string_view name) {
  const std::size_t pictures = read.batch.pixels.size() / kCifar10ImageBytes;
  if (read.batch.labels.size() != pictures) {
    throw DataLoss("{}: {} labels for {} pictures", name, read.batch.labels.size(), pictures);
  }
  if (!read.filenames.empty() && read.filenames.size() != pictures) {
    throw DataLoss("{}: {} filenames for {} pictures", name, read.filenames.size(), pictures);
  }
}

/// Refuses a key that comes twice.
void once(Recogniser& pickle, bool& seen, std::string_view key) {
  if (std::exchange(seen, true)) pickle.fail(fmt::format("key '{}' comes twice", key));
}

}  // namespace

Cifar10Pickle parse_cifar10_pickle(std::string_view bytes, std::string_view name) {
  Recogniser pickle(bytes, name);
  Cifar10Pickle read;
  bool has_data = false, has_labels = false, has_batch_label = false, has_filenames = false;
  pickle.dictionary([&](std::string_view key) {
    if (key == "data") {
      once(pickle, has_data, key);
      read.batch.pixels = pickle.pixels();
    } else if (key == "labels") {
      once(pickle, has_labels, key);
      read.batch.labels = read_labels(pickle);
    } else if (key == "batch_label") {
      once(pickle, has_batch_label, key);
      read.batch_label = pickle.text();
    } else if (key == "filenames") {
      once(pickle, has_filenames, key);
      read.filenames = read_strings(pickle, bytes.size());
    } else {
      pickle.fail("a key other than data, labels, batch_label, filenames");
    }
  });
  if (!has_data || !has_labels) throw DataLoss("{}: the pickle has no data or no labels", name);
  check_counts(read, name);
  return read;
}

Cifar10Pickle read_cifar10_pickle(const Path& path) {
  return parse_cifar10_pickle(read_all(*open_input(path), kMaxPickleBytes), path.string());
}

std::vector<std::string> parse_cifar10_meta_pickle(std::string_view bytes, std::string_view name) {
  Recogniser pickle(bytes, name);
  std::vector<std::string> names;
  bool has_names = false;
  pickle.dictionary([&](std::string_view key) {
    if (key == "label_names") {
      once(pickle, has_names, key);
      names = read_strings(pickle, bytes.size());
    } else if (key == "num_cases_per_batch" || key == "num_vis") {
      pickle.integer();
    } else {
      pickle.fail("a key other than label_names, num_cases_per_batch, num_vis");
    }
  });
  if (names.size() != kCifar10Classes) {
    throw DataLoss("{}: {} label_names, expected {}", name, names.size(), kCifar10Classes);
  }
  return names;
}

std::vector<std::string> read_cifar10_meta_pickle(const Path& path) {
  return parse_cifar10_meta_pickle(read_all(*open_input(path), kMaxPickleBytes), path.string());
}

}  // namespace muster
