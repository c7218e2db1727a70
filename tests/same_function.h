// Compares our declarations of the CUDA driver's functions with those of cuda.h, without sharing its types.
#pragma once

#include <type_traits>

#include <cuda.h>

namespace salus::test {

/// As large as the real one, and a pointer where that is one.
template <typename Ours, typename Real>
inline constexpr bool kSameShape = sizeof(Ours) == sizeof(Real) && std::is_pointer_v<Ours> == std::is_pointer_v<Real>;

template <typename Ours, typename Real>
struct SameFunction : std::false_type {};
template <typename... Ours, typename... Real>
requires(sizeof...(Ours) == sizeof...(Real)) struct SameFunction<int (*)(Ours...), CUresult (*)(Real...)>
    : std::bool_constant<(kSameShape<Ours, Real> && ...)> {
};

}  // namespace salus::test
