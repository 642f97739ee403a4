#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Words and their ids, which are their places. Immutable; copies share the words.
class Vocabulary {
 public:
  /// Throws InvalidArgument for no words, or for a word that occurs twice.
  explicit Vocabulary(const std::vector<std::string>& words);
  /// One word a line; the line ends with LF or CRLF. Takes the first `size` lines where given.
  /// Throws NotFound for no such file, else InvalidArgument with the file and the line: too few
  /// lines, or a word that occurs twice.
  static Vocabulary from_file(const Path& file, std::optional<std::int64_t> size = {});
  /// The same words, each read as a whole number and written in its shortest form, as features of
  /// numbers look them up. Throws InvalidArgument for a word that is no such number.
  Vocabulary as_numbers() const;

  std::int64_t size() const { return static_cast<std::int64_t>(words_->size()); }
  /// By id. Valid as long as this vocabulary or a copy of it lives.
  std::span<const std::string_view> words() const { return *words_; }

  /// The id, or -1 where the word is not one of these.
  std::int64_t find(std::string_view word) const;
  /// The same when the word's fingerprint64() is at hand.
  std::int64_t find(std::string_view word, std::uint64_t fingerprint) const {
    for (std::size_t place = fingerprint & mask_;; place = (place + 1) & mask_) {
      const Slot& slot = (*slots_)[place];
      if (slot.id < 0) return -1;
      if (slot.fingerprint == fingerprint && (*words_)[static_cast<std::size_t>(slot.id)] == word) {
        return slot.id;
      }
    }
  }

 private:
  // A table with open addresses, at most half full.
  struct Slot {
    std::uint64_t fingerprint = 0;
    std::int64_t id = -1;
  };

  // `words` are views into `text`; `place` is what errors count: words, lines.
  Vocabulary(std::shared_ptr<const std::string> text, std::vector<std::string_view> words,
             std::string_view place);

  std::shared_ptr<const std::string> text_;
  std::shared_ptr<const std::vector<std::string_view>> words_;
  std::shared_ptr<const std::vector<Slot>> slots_;
  std::size_t mask_ = 0;
};

}  // namespace muster
