#pragma once

#include <cstdint>

namespace muster::kernels {

/// Callable of parallel_for(), which takes the bounds of a part. It refers to the function that it
/// is made of, which therefore outlives it: made in a call, as of a lambda, for that call.
class RangeFunction {
 public:
  template <typename Work>
  RangeFunction(
      const Work& work)  // NOLINT(google-explicit-constructor): lambdas are passed as such
      : work_(&work), call_([](const void* function, std::int64_t begin, std::int64_t end) {
          (*static_cast<const Work*>(function))(begin, end);
        }) {}

  void operator()(std::int64_t begin, std::int64_t end) const { call_(work_, begin, end); }

 private:
  const void* work_;
  void (*call_)(const void* function, std::int64_t begin, std::int64_t end);
};

/// at::parallel_for: calls `work(first, last)` for parts of [begin, end), none of them shorter than
/// `grain` but the last, on libtorch's threads. Throws what `work` throws.
///
/// No template, so that one unit alone, compiled by the compiler whose OpenMP is libtorch's, has
/// threads in it; and the compiler of the tests has another.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction work);

/// Sets the number of intra-op threads of this thread alone. at::set_num_threads sets it for
/// threads that begin later too, and recreates libtorch's pthreadpool.
void set_threads_of_this(int threads);

}  // namespace muster::kernels
