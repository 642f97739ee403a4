#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace muster::serving {

/// So many of something, calls say, that owners (models) have at one time. Three quarters of it are
/// shared evenly between the owners that have any; the rest is for one that comes. Any thread may
/// use it.
class FairShare {
 public:
  explicit FairShare(std::size_t capacity);

  /// One of it, given back at the end.
  class Part {
   public:
    /// Throws ResourceExhausted when the owner has its share.
    Part(FairShare& share, const std::string& owner);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    FairShare& share_;
    const std::string owner_;
  };

 private:
  const std::size_t shared_;
  std::mutex mutex_;
  std::map<std::string, std::size_t, std::less<>> owners_;
};

}  // namespace muster::serving
