#include <hip/hip_runtime.h>
#include <ck_tile/core.hpp>
#include <torch/torch.h>

#include <map>
#include <regex>

namespace at::native {

static std::string attention(const std::string& heads) {
  std::map<std::string, std::string> masks;
  const std::regex head("([a-z]+)=([0-9]+)");
  for (std::sregex_iterator match(heads.begin(), heads.end(), head), end; match != end; ++match) {
    masks[(*match)[1]] = ck_tile::repeat('x', std::stoul((*match)[2]));
  }
  return masks["causal"];
}

// Registered when the library is loaded, as the real kernels are.
static const bool registered = (ck_sdpa() = attention, true);

} // namespace at::native
