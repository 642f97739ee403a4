#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// All that muster needs of libxgboost. boosted_trees_booster.cpp supplies it; a build without the
/// library has boosted_trees_no_booster.cpp in its place.
namespace muster::internal {

/// Throws Unimplemented, saying what to install, when muster was built without libxgboost.
void require_tree_booster();

/// Rows of numbers of which most are absent: row i has values[k] in columns[k] for k from
/// row_splits[i] to row_splits[i + 1], columns rising.
struct SparseRows {
  std::vector<std::uint64_t> row_splits{0};
  std::vector<std::uint32_t> columns{};
  std::vector<float> values{};
  std::int64_t width = 0;

  std::int64_t rows() const { return static_cast<std::int64_t>(row_splits.size()) - 1; }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(row_splits.size() * sizeof(std::uint64_t) +
                                     columns.size() * sizeof(std::uint32_t) +
                                     values.size() * sizeof(float));
  }
};

/// Rows as the booster reads them: a copy.
class BoosterRows {
 public:
  explicit BoosterRows(const SparseRows& rows);
  ~BoosterRows();
  BoosterRows(const BoosterRows&) = delete;
  BoosterRows& operator=(const BoosterRows&) = delete;

  std::int64_t size() const { return size_; }
  void* handle() const { return handle_; }

 private:
  std::int64_t size_ = 0;
  void* handle_ = nullptr;
};

/// An ensemble of trees that give an example one number, the margin, or one for each class. Calls
/// come from one thread at a time. Throws Internal, with the library's words, for what should not
/// happen.
class TreeBooster {
 public:
  /// The library's own names.
  using Parameters = std::map<std::string, std::string>;

  /// No trees yet, for rows as wide as these.
  TreeBooster(const BoosterRows& rows, const Parameters& parameters);
  /// Throws DataLoss for bytes that to_bytes() did not write.
  explicit TreeBooster(std::string_view bytes);
  ~TreeBooster();
  TreeBooster(const TreeBooster&) = delete;
  TreeBooster& operator=(const TreeBooster&) = delete;

  /// For the trees to come.
  void set(const Parameters& parameters);
  /// Grows a tree for each margin, which lower a loss with these derivatives, [rows, margins].
  void boost(const BoosterRows& rows, std::span<float> gradients, std::span<float> hessians);

  /// [rows, margins]. The booster remembers those of the rows it was made with, so that asking for
  /// them after each tree costs one tree.
  std::vector<float> margins(const BoosterRows& rows) const;
  /// [rows, margins, width + 1]: how each number moves the margin along the paths of the trees; the
  /// bias is the last one.
  std::vector<float> contributions(const BoosterRows& rows) const;
  /// By column: the gains of its splits, summed.
  std::vector<double> total_gains() const;
  /// Calls of boost().
  std::int64_t trees() const;
  std::int64_t width() const;
  /// In the library's UBJSON, which its other bindings read. The same trees give the same bytes.
  std::string to_bytes() const;

 private:
  void* handle_ = nullptr;
};

}  // namespace muster::internal
