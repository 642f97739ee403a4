#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// The candidate that a person who typed `word` most likely meant: that with the fewest typing
/// errors (a letter too many, too few, another one, two exchanged), the first of equals. Case and
/// '-' against '_' make no difference. Nothing when even the nearest is another word.
std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& candidates);

/// "; did you mean --train-steps?", for the end of an error; empty when there is nothing to
/// suggest.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace muster
