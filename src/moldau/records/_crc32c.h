/* CRC32C with the processor's crc32 instruction.
 *
 * The instruction has a latency of three cycles, but one can start per cycle. So three independent lanes are computed
 * in parallel and then combined. Lane a is followed by lane b and lane c in memory. To move a remainder n bytes ahead,
 * it is multiplied by x^(8n) modulo the polynomial. The carry-less product of two reflected 32-bit remainders, passed
 * to crc32 as eight bytes of data, is multiplied by another x^33, so the constants are x^(8n - 33).
 *
 * If the processor or the compiler does not support this, crc32c_available() is 0 and the caller uses a library.
 */
#ifndef MOLDAU_RECORDS_CRC32C_H
#define MOLDAU_RECORDS_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define CRC32C_LONG_LANE 1024
#define CRC32C_SHORT_LANE 128

static int crc32c_ready = 0;
static uint64_t crc32c_long_by_1, crc32c_long_by_2, crc32c_short_by_1, crc32c_short_by_2;

/* x^(8 * bytes - 33) modulo the polynomial, reflected: bit 31 is x^0. */
static uint64_t crc32c_shift_constant(int bytes) {
    uint32_t power = 0x80000000u;
    for (int i = 0; i < 8 * bytes - 33; i++)
        power = (power >> 1) ^ (power & 1 ? 0x82F63B78u : 0);
    return power;
}

static int crc32c_available(void) {
    if (!crc32c_ready && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        crc32c_long_by_1 = crc32c_shift_constant(CRC32C_LONG_LANE);
        crc32c_long_by_2 = crc32c_shift_constant(CRC32C_LONG_LANE * 2);
        crc32c_short_by_1 = crc32c_shift_constant(CRC32C_SHORT_LANE);
        crc32c_short_by_2 = crc32c_shift_constant(CRC32C_SHORT_LANE * 2);
        crc32c_ready = 1;
    }
    return crc32c_ready;
}

static inline uint64_t crc32c_load(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

__attribute__((target("sse4.2,pclmul")))
static inline uint64_t crc32c_three_lanes(uint64_t a, const uint8_t *p, size_t lane, uint64_t by_1, uint64_t by_2) {
    uint64_t b = 0, c = 0;
    for (const uint8_t *end = p + lane; p < end; p += 8) {
        a = _mm_crc32_u64(a, crc32c_load(p));
        b = _mm_crc32_u64(b, crc32c_load(p + lane));
        c = _mm_crc32_u64(c, crc32c_load(p + 2 * lane));
    }
    __m128i moved_a = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi64_si128((long long)by_2), 0);
    __m128i moved_b = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b), _mm_cvtsi64_si128((long long)by_1), 0);
    return c ^ _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(moved_a, moved_b)));
}

__attribute__((target("sse4.2,pclmul")))
static uint32_t crc32c_extend(uint32_t value, const uint8_t *p, size_t n) {
    uint64_t crc = ~value;
    for (; n >= 3 * CRC32C_LONG_LANE; p += 3 * CRC32C_LONG_LANE, n -= 3 * CRC32C_LONG_LANE)
        crc = crc32c_three_lanes(crc, p, CRC32C_LONG_LANE, crc32c_long_by_1, crc32c_long_by_2);
    for (; n >= 3 * CRC32C_SHORT_LANE; p += 3 * CRC32C_SHORT_LANE, n -= 3 * CRC32C_SHORT_LANE)
        crc = crc32c_three_lanes(crc, p, CRC32C_SHORT_LANE, crc32c_short_by_1, crc32c_short_by_2);
    for (; n >= 8; p += 8, n -= 8)
        crc = _mm_crc32_u64(crc, crc32c_load(p));
    for (; n; p++, n--)
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}

#else

static int crc32c_available(void) { return 0; }

static uint32_t crc32c_extend(uint32_t value, const uint8_t *p, size_t n) {
    (void)p;
    (void)n;
    return value;
}

#endif
#endif
