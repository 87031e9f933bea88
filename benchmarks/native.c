/* Training passes of ComplEx in C, as fast as we can make them: what a compiler of another language would gain.

Sixteen numbers at a time, with what GCC and Clang call vector extensions; native.py compiles and times it. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef float v16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16 __attribute__((vector_size(64)));
#define inline static inline __attribute__((always_inline))
#define BLOCK 16  /* negatives that are met together */
#define AHEAD 64  /* places before a row is met, it is asked for */

inline v16 fill(float a) { return a - (v16){}; }

inline v16 choose(i16 where, v16 yes, v16 no) { return (v16)((where & (i16)yes) | (~where & (i16)no)); }

inline float sum(v16 a) {
    float total = 0;
    for (int n = 0; n < 16; n++) total += a[n];
    return total;
}

inline v16 part(const float *table, size_t place) { return *(const v16 *)(table + place); }

inline v16 exp16(v16 a) { /* a ≤ 0 */
    v16 y = choose(a > -87, a, fill(-87)) * 1.44269504f;
    i16 n = __builtin_convertvector(y - .5f, i16); /* towards zero: the nearest whole number */
    v16 f = (y - __builtin_convertvector(n, v16)) * .693147181f, p = fill(1 / 720.f);
    p = p * f + 1 / 120.f, p = p * f + 1 / 24.f, p = p * f + 1 / 6.f, p = p * f + .5f, p = p * f + 1, p = p * f + 1;
    return p * (v16)((n + 127) << 23);
}

/* One query and eight rows: their scores. */
inline void score(const float *q, const float *table, const int32_t *ids, int width, float *scores) {
    v16 s[8] = {};
    for (int k = 0; k < width; k += 16)
        for (int n = 0; n < 8; n++) s[n] += part(q, k) * part(table, (size_t)ids[n] * width + k);
    for (int n = 0; n < 8; n++) scores[n] = sum(s[n]);
}

/* Adds eight rows' shares to a query's gradient; meanwhile asks for eight rows that are met soon. */
inline void add_rows(float *g, const float *table, const int32_t *ids, const float *w, int width) {
    for (int k = 0; k < width; k += 16) {
        v16 one = part(g, k), other = {};
        for (int n = 0; n < 8; n++) __builtin_prefetch(table + (size_t)ids[AHEAD + n] * width + k, 0, 2);
        for (int n = 0; n < 8; n += 2) {
            one += w[n] * part(table, (size_t)ids[n] * width + k);
            other += w[n + 1] * part(table, (size_t)ids[n + 1] * width + k);
        }
        *(v16 *)(g + k) = one + other;
    }
}

/* Positives begin … end − 1 and their negatives in one half of the table, ids[first[i]] … ids[last[i] − 1]: weights
   ∂L/∂s and the gradients of the queries, both up to a factor, and Σ w. */
void meet(const float *table, const float *query, const int32_t *ids, const int32_t *first, const int32_t *last,
          float *weight, float *by_query, float *share, int width, int begin, int end, float alpha) {
    for (int i = begin; i < end; i++) {
        const float *q = query + (size_t)i * width;
        const int32_t *id = ids + first[i];
        float *w = weight + first[i], *g = by_query + (size_t)i * width, top = -INFINITY;
        int n = last[i] - first[i];
        v16 shares = {};
        for (int k = 0; k < width; k += 16) *(v16 *)(g + k) = (v16){};
        for (int j = 0; j < n; j += BLOCK) { /* the last ids are filled up to sixteen */
            score(q, table, id + j, width, w + j);
            score(q, table, id + j + 8, width, w + j + 8);
            for (int k = n; k < j + BLOCK; k++) w[k] = -1e30f;
            float highest = top, factor = 1;
            for (int k = 0; k < BLOCK; k++) highest = w[j + k] > highest ? w[j + k] : highest;
            if (highest > top && j > 0) {
                factor = exp16(fill(alpha * (top - highest)))[0];
                for (int k = 0; k < width; k += 16) *(v16 *)(g + k) *= factor;
                for (int k = 0; k < j; k += 16) *(v16 *)(w + k) *= factor;
            }
            top = highest;
            v16 s = part(w, j), e = exp16(alpha * (s - top)), small = exp16(choose(s > 0, -s, s));
            shares = shares * factor + e;
            *(v16 *)(w + j) = e * choose(s > 0, fill(1), small) / (1 + small);
            add_rows(g, table, id + j, w + j, width);
            add_rows(g, table, id + j + 8, w + j + 8, width);
        }
        share[i] = sum(shares);
    }
}

/* Rows begin … end − 1 of one half: the gradient by the queries of their pairs, the pull towards K, a step of Adam. */
void update(float *table, float *first, float *second, const float *received, double *square, const float *query,
            const int32_t *source, const float *sorted_weight, const float *factor, const int32_t *place, int lists,
            int stride, int width, int begin, int end, float pull, float rate, float unbias, float epsilon) {
    static _Thread_local float gradients[64 * 1024];
    int rows = 64 * 1024 / width;
    for (int from = begin; from < end; from += rows) {
        int to = from + rows < end ? from + rows : end;
        for (int e = from; e < to; e++)
            for (int k = 0; k < width; k += 128) {
                v16 a[8] = {};
                for (const int32_t *list = place; list < place + (size_t)lists * stride; list += stride)
                    for (int32_t p = list[e]; p < list[e + 1]; p += 2) {
                        float w = sorted_weight[p] * factor[source[p]];
                        for (int n = 0; n < 8; n++) a[n] += w * part(query, (size_t)source[p] * width + k + 16 * n);
                    }
                for (int n = 0; n < 8; n++) *(v16 *)(gradients + (size_t)(e - from) * width + k + 16 * n) = a[n];
            }
        for (int e = from; e < to; e++) {
            v16 squares = {};
            for (int k = 0; k < width; k += 16) {
                size_t at = (size_t)e * width + k;
                v16 x = part(table, at), known = part(received, at);
                v16 g = pull * (x - known) + part(gradients, (size_t)(e - from) * width + k);
                v16 m = .9f * part(first, at) + .1f * g, v = .999f * part(second, at) + .001f * g * g, root;
                *(v16 *)(first + at) = m, *(v16 *)(second + at) = v;
                for (int n = 0; n < 16; n++) root[n] = __builtin_sqrtf(v[n]);
                *(v16 *)(table + at) = x -= rate * m / (unbias * root + epsilon);
                squares += (x - known) * (x - known);
            }
            square[e] = sum(squares);
        }
    }
}
