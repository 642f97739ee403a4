#include <algorithm>
#include <cstring>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/object_store.h"
#include "muster/data/records/compression_internal.h"
#include "muster/data/records/row_source_internal.h"

namespace muster {
namespace {

constexpr std::size_t kRowBlockBytes = std::size_t{256} << 10;

// Most lines have none, which is soon seen.
bool has_odd_quotes(std::string_view line) {
  const std::size_t first = line.find('"');
  return first != std::string_view::npos &&
         std::count(line.begin() + static_cast<std::ptrdiff_t>(first), line.end(), '"') % 2 != 0;
}

}  // namespace

RowSource::RowSource(std::string name, std::function<std::unique_ptr<InputStream>()> open,
                     const RowSourceOptions& options, OpenAt open_at)
    : name_(std::move(name)),
      open_(std::move(open)),
      options_(options),
      open_at_(std::move(open_at)) {
  rewind();
}

RowSource::RowSource(const Path& path, Compression compression, const RowSourceOptions& options)
    : RowSource(
          path.string(), [path, compression] { return open_input(path, compression); }, options) {
  path_ = path;
  compression_ = compression;
}

void RowSource::begin(std::unique_ptr<InputStream> input, std::uint64_t number,
                      std::uint64_t offset) {
  input_ = std::move(input);
  block_.reset();
  block_offset_ = offset;
  filled_ = row_start_ = 0;
  at_end_ = false;
  // A byte order mark is at the front alone.
  begun_ = offset > 0;
  line_ = number + 1;
  position_ = number;
  places_.reset();
}

void RowSource::rewind() {
  begin(open_(), 0, 0);
  std::string_view header;
  for (std::uint64_t i = 0; i < options_.skip_header_lines; ++i) {
    if (!read_row(/*use_quotes=*/false, header)) break;
  }
}

bool RowSource::next(Record& out) {
  std::string_view row;
  if (!advance(row)) return false;
  if (row.empty() && options_.empty_rows == EmptyRows::kError) {
    throw InvalidArgument("{} line {}: empty line; remove it, or read with skip_empty_lines", name_,
                          row_line_);
  }
  out.bytes = row;
  out.owner = block_;
  return true;
}

void RowSource::seek(std::uint64_t number) {
  if (number < position_) rewind();
  places_.reset();
  std::string_view row;
  while (position_ < number && advance(row)) {
  }
}

std::optional<std::uint64_t> RowSource::offset() const {
  return open_at_ ? std::optional(block_offset_ + row_start_) : std::nullopt;
}

void RowSource::seek(std::uint64_t number, std::uint64_t offset) {
  if (!open_at_) throw FailedPrecondition("{}: its lines cannot be found by offsets", name_);
  if (number == 0 && offset == 0) return rewind();
  // From the end of the line before.
  auto input = offset > 0 ? open_at_(offset - 1) : nullptr;
  char end = 0;
  if (!input || input->read({&end, 1}) != 1 || end != '\n') {
    throw DataLoss("{}: line {} does not begin at byte {}", name_, number + 1, offset);
  }
  begin(std::move(input), number, offset);
}

bool RowSource::advance(std::string_view& row) {
  do {
    if (!read_row(options_.use_quotes, row)) {
      if (places_) places_->end(block_offset_ + filled_);
      return false;
    }
  } while (row.empty() && options_.empty_rows == EmptyRows::kSkip);
  note_line();
  if (places_) {
    places_->add(block_offset_ + static_cast<std::uint64_t>(row.data() - block_.get()), row.size());
  }
  ++position_;
  return true;
}

void RowSource::skip_byte_order_mark() {
  begun_ = true;
  if (!read_more()) return;
  const std::string_view text(block_.get(), filled_);
  row_start_ = text.size() - without_byte_order_mark(text).size();
}

bool RowSource::read_row(bool use_quotes, std::string_view& row) {
  if (!begun_) skip_byte_order_mark();
  const std::uint64_t first_line = line_;
  const std::size_t end = find_end(use_quotes);
  if (row_start_ == filled_) return false;
  row = std::string_view(block_.get() + row_start_, end - row_start_);
  if (row.ends_with('\r')) row.remove_suffix(1);
  row_start_ = std::min(end + 1, filled_);
  row_line_ = first_line;
  ++line_;
  return true;
}

std::size_t RowSource::find_end(bool use_quotes) {
  std::size_t scanned = 0;  // from row_start_, which read_more() moves
  bool quoted = false;
  std::uint64_t inner_lines = 0;
  for (;;) {
    const char* const from = block_.get() + row_start_ + scanned;
    const std::size_t left = filled_ - row_start_ - scanned;
    const void* const found = left > 0 ? std::memchr(from, '\n', left) : nullptr;
    const std::size_t length = found ? static_cast<const char*>(found) - from : left;
    if (use_quotes && has_odd_quotes({from, length})) quoted = !quoted;
    scanned += length;
    if (scanned > options_.max_row_bytes) {
      throw InvalidArgument("{} line {}: longer than {} bytes{}", name_, line_,
                            options_.max_row_bytes, quoted ? "; is a quote not closed?" : "");
    }
    if (found && !quoted) break;
    if (found) {
      ++inner_lines;
      ++scanned;
    } else if (!read_more()) {
      if (quoted) fail_unclosed();
      break;
    }
  }
  line_ += inner_lines;
  return row_start_ + scanned;
}

bool RowSource::read_more() {
  if (at_end_) return false;
  const std::size_t begun = filled_ - row_start_;
  const std::size_t bytes = std::max(kRowBlockBytes, 2 * begun);
  auto block = std::make_shared_for_overwrite<char[]>(bytes);
  if (begun > 0) std::memcpy(block.get(), block_.get() + row_start_, begun);
  const std::size_t more = input_->read({block.get() + begun, bytes - begun});
  at_end_ = more < bytes - begun;
  block_ = std::move(block);
  block_offset_ += row_start_;
  row_start_ = 0;
  filled_ = begun + more;
  return more > 0;
}

void RowSource::note_line() {
  const bool known = !line_marks_.empty() && position_ <= line_marks_.back().first;
  if (!known && line_of(position_) != row_line_) line_marks_.emplace_back(position_, row_line_);
}

std::uint64_t RowSource::line_of(std::uint64_t number) const {
  const auto after =
      std::upper_bound(line_marks_.begin(), line_marks_.end(), number,
                       [](std::uint64_t wanted, const auto& mark) { return wanted < mark.first; });
  if (after == line_marks_.begin()) return options_.skip_header_lines + number + 1;
  const auto& [marked_number, marked_line] = *(after - 1);
  return marked_line + (number - marked_number);
}

std::string RowSource::where(std::uint64_t number) const {
  return fmt::format("{} line {}", name_, line_of(number));
}

void RowSource::note_places(std::uint64_t most) {
  if (position_ > 0 || path_.empty() || is_remote(path_)) return;
  // An input that cannot be read twice, such as a pipe, has no size.
  const auto status = file_system_for(path_).status(path_);
  if (!status || status->size_bytes == 0) return;
  if (compression_internal::is_plain(path_, compression_)) places_.emplace(path_, *status, most);
}

std::shared_ptr<const RecordTable> RowSource::table() const {
  return places_ ? places_->table() : nullptr;
}

void RowSource::fail_unclosed() const {
  throw InvalidArgument(
      "{} line {}: a quote that opens here is not closed before the end of the file", name_, line_);
}

std::unique_ptr<RecordSource> open_rows(const Path& path, Compression compression,
                                        const RowSourceOptions& options) {
  return std::make_unique<RowSource>(path, compression, options);
}

}  // namespace muster
