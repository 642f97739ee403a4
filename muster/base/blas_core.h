#pragma once

#include <string>
#include <string_view>

namespace muster {

/// The kind of processor that OpenBLAS should have chosen its kernels for, where it did not know
/// this one and took those of one without AVX: "Haswell" beside AVX2, "SkylakeX" beside AVX-512.
/// Empty where its choice is fine. `flags` are those of /proc/cpuinfo.
std::string better_blas_core(std::string_view core, std::string_view flags);

/// The same for the OpenBLAS that this process has loaded, if any, and this processor.
std::string better_blas_core();

namespace internal {

/// Begins this process anew with OPENBLAS_CORETYPE where that makes OpenBLAS choose better and the
/// environment does not say what to choose, but not for `--help` and `--version`: libraries would
/// be loaded a second time. For main(), before there are threads.
void choose_blas_core(char** arguments);

}  // namespace internal
}  // namespace muster
