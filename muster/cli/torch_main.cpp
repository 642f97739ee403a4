// muster-torch: the commands that need libtorch. `muster` execs it; users need not know of it.
#include <dlfcn.h>
#include <fmt/core.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <ATen/Version.h>

namespace {

using Text = const char* (*)();

// A library's own word, if it is loaded at all: which BLAS that is, is the system's choice at run
// time.
std::string ask(const char* symbol) {
  const auto function = reinterpret_cast<Text>(::dlsym(RTLD_DEFAULT, symbol));
  return function == nullptr ? "" : function();
}

// The file that matrix products come from, with the links of Debian's alternatives resolved.
std::string blas_file() {
  void* symbol = ::dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info info{};
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return "";
  std::error_code ignored;  // An unresolvable path is shown as it is.
  const auto resolved = std::filesystem::canonical(info.dli_fname, ignored);
  return ignored ? info.dli_fname : resolved.string();
}

void print_blas() {
  const std::string config = ask("openblas_get_config");
  if (!config.empty()) {
    fmt::print("BLAS: {}, core {}\n", config.substr(0, config.find(" NO_", 0)),
               ask("openblas_get_corename"));
    return;
  }
  if (at::get_mkl_version().find("not found") == std::string::npos) {
    fmt::print("BLAS: {}\n", at::get_mkl_version());
    return;
  }
  const std::string file = blas_file();
  fmt::print("BLAS: {}\n", file.empty() ? "built into libtorch" : file);
  if (file.find("/blas/libblas") != std::string::npos) {
    fmt::print(stderr,
               "muster: warning: this is the reference BLAS, many times slower than OpenBLAS: "
               "apt-get install libopenblas0-pthread\n");
  }
}

// libtorch 1.13 tells its CPU capability in its report alone.
std::string cpu_capability() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  const std::string config = at::show_config();
  const auto at = config.find(kLabel);
  if (at == std::string::npos) return "unknown";
  const auto start = at + kLabel.size();
  return config.substr(start, config.find('\n', start) - start);
}

int print_version() {
  fmt::print("libtorch {}, CPU capability {}\n", TORCH_VERSION, cpu_capability());
  print_blas();
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "version") return print_version();
  fmt::print(stderr, "muster-torch: started by muster, not by hand\n");
  return 2;
}
