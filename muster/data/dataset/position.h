#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/data/dataset/element.h"

namespace muster {

/// Gathers the position of an iterator, stage by stage, from the consumer up to the sources. Laying
/// it out is put off until encode(): stages that read ahead take snapshots all the time, of which
/// few are ever saved.
class PositionWriter {
 public:
  /// The stage whose part follows; read back with PositionReader::expect().
  void stage(std::string_view kind);
  void number(std::uint64_t value);
  void text(std::string_view value);
  /// Failures that wait to be reported: what they say is kept, and their codes.
  void failures(std::span<const std::exception_ptr> failures);
  /// In this order; sorted and delta-coded, they take a few bytes each.
  void origins(std::vector<Origin> origins);
  /// The position of another iterator, as one piece that a reader may leave aside.
  void nested(std::shared_ptr<const PositionWriter> position);

  /// Cost of a snapshot, in bytes copied.
  std::size_t cost() const { return cost_; }
  /// The position as a string: a header with a version and a checksum, and the parts.
  std::string encode() const;

 private:
  using Part =
      std::variant<std::string, std::vector<Origin>, std::shared_ptr<const PositionWriter>>;

  std::string& tail();
  void append_to(std::string& out) const;

  std::vector<Part> parts_;
  std::size_t cost_ = 0;
};

/// Reads what a PositionWriter wrote. Everything throws InvalidArgument when the bytes do not fit
/// what is asked of them. Views in `bytes`, which must outlive it.
class PositionReader {
 public:
  /// Checks header and checksum.
  static PositionReader open(std::string_view bytes);

  /// Throws unless the position was saved at a stage of this kind, naming both.
  void expect(std::string_view kind);
  std::uint64_t number();
  std::string text();
  std::vector<std::exception_ptr> failures();
  std::vector<Origin> origins();
  PositionReader nested();

  bool at_end() const { return rest_.empty(); }
  /// Throws if anything is left: the position belongs to a longer pipeline.
  void finish() const;

 private:
  explicit PositionReader(std::string_view rest) : rest_(rest) {}
  std::string_view take(std::uint64_t bytes);

  std::string_view rest_;
};

}  // namespace muster
