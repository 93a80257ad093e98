//! The piece in Rust, behind a C ABI: no crate is used. BLAS comes as pointers that SciPy exports.
use std::slice::from_raw_parts as read;

type Dsyrk = unsafe extern "C" fn(*const u8, *const u8, *const i32, *const i32, *const f64, *const f64, *const i32, *const f64, *mut f64, *const i32);
type Dgemv = unsafe extern "C" fn(*const u8, *const i32, *const i32, *const f64, *const f64, *const i32, *const f64, *const i32, *const f64, *mut f64, *const i32);

pub struct Rows {
    columns: *const f64, // the caller keeps them alive
    m: usize,
    r: usize,
    dsyrk: Dsyrk,
    dgemv: Dgemv,
    x: Vec<f64>,
    z: Vec<f64>,
    residual: Vec<f64>,
    ratio: Vec<f64>,
    target: Vec<f64>,
    dx: Vec<f64>,
    dz: Vec<f64>,
    d: Vec<f64>,
    root: Vec<f64>,
    force: Vec<f64>,
    slide: Vec<f64>,
    scaled: Vec<f64>,
}

/// The body compiled for every processor and for those with AVX2, chosen when it runs.
macro_rules! for_each_cpu {
    ($name:ident, $wide:ident, $body:ident, ($($arg:ident : $type:ty),*) $(-> $out:ty)?) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $wide($($arg: $type),*) $(-> $out)? { $body($($arg),*) }
        fn $name($($arg: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return unsafe { $wide($($arg),*) };
            }
            $body($($arg),*)
        }
    };
}

#[inline(always)]
fn scale_body(s: &mut Rows, columns: &[f64]) {
    let m = s.m;
    let (x, z) = (s.x.split_at(m), s.z.split_at(m));
    let ratio = s.ratio.split_at_mut(m);
    let (d, root) = (&mut s.d[..m], &mut s.root[..m]);
    let (x0, x1, z0, z1) = (&x.0[..m], &x.1[..m], &z.0[..m], &z.1[..m]);
    let (r0, r1) = (&mut ratio.0[..m], &mut ratio.1[..m]);
    for i in 0..m {
        r0[i] = x0[i] / z0[i];
        r1[i] = x1[i] / z1[i];
        d[i] = 1.0 / (r0[i] + r1[i]);
        root[i] = d[i].sqrt();
    }
    for (row, a) in s.scaled.chunks_exact_mut(m).zip(columns.chunks_exact(m)) {
        for i in 0..m {
            row[i] = a[i] * root[i];
        }
    }
}
for_each_cpu!(scale, scale_wide, scale_body, (s: &mut Rows, columns: &[f64]));

#[inline(always)]
fn turn_body(s: &mut Rows) -> (f64, f64) {
    const LANES: usize = 8; // a minimum in lanes: one alone is not turned into vectors
    let m = s.m;
    let (x0, x1) = (&s.x[..m], &s.x[m..2 * m]);
    let (z0, z1) = (&s.z[..m], &s.z[m..2 * m]);
    let (q0, q1) = (&s.ratio[..m], &s.ratio[m..2 * m]);
    let (t0, t1) = (&s.target[..m], &s.target[m..2 * m]);
    let (d, f, slide) = (&s.d[..m], &s.force[..m], &s.slide[..m]);
    let (dx0, dx1) = s.dx.split_at_mut(m);
    let (dz0, dz1) = s.dz.split_at_mut(m);
    let (dx1, dz1) = (&mut dx1[..m], &mut dz1[..m]);
    let (mut primal, mut dual) = ([0.0f64; LANES], [0.0f64; LANES]);
    let mut one = |i: usize, lane: usize| {
        let a = f[i] - d[i] * slide[i];
        let ds = t0[i] - x0[i] - q0[i] * a;
        let dxi = t1[i] - x1[i] + q1[i] * a;
        dz0[i] = a;
        dz1[i] = -a;
        dx0[i] = ds;
        dx1[i] = dxi;
        let (p1, p2, d1, d2) = (ds / x0[i], dxi / x1[i], a / z0[i], -a / z1[i]);
        let (p, q) = (if p1 < p2 { p1 } else { p2 }, if d1 < d2 { d1 } else { d2 });
        primal[lane] = if p < primal[lane] { p } else { primal[lane] };
        dual[lane] = if q < dual[lane] { q } else { dual[lane] };
    };
    for start in (0..m / LANES * LANES).step_by(LANES) {
        for lane in 0..LANES {
            one(start + lane, lane);
        }
    }
    for i in m / LANES * LANES..m {
        one(i, 0);
    }
    (primal.into_iter().fold(0.0, f64::min), dual.into_iter().fold(0.0, f64::min))
}
for_each_cpu!(turn, turn_wide, turn_body, (s: &mut Rows) -> (f64, f64));

#[inline(always)]
fn push_body(s: &mut Rows) {
    let m = s.m;
    let (t0, t1) = (&s.target[..m], &s.target[m..2 * m]);
    let (r, d, force) = (&s.residual[..m], &s.d[..m], &mut s.force[..m]);
    for i in 0..m {
        force[i] = d[i] * (r[i] + (t0[i] - t1[i]));
    }
}
for_each_cpu!(push, push_wide, push_body, (s: &mut Rows));

#[inline(always)]
fn aim_body(s: &mut Rows, mu: f64) {
    let n = 2 * s.m;
    let (dx, dz, z, target) = (&s.dx[..n], &s.dz[..n], &s.z[..n], &mut s.target[..n]);
    for i in 0..n {
        target[i] = (mu - dx[i] * dz[i]) / z[i];
    }
}
for_each_cpu!(aim, aim_wide, aim_body, (s: &mut Rows, mu: f64));

#[inline(always)]
fn move_body(s: &mut Rows, primal: f64, dual: f64) {
    let (m, n) = (s.m, 2 * s.m);
    let (dx, dz, x, z) = (&s.dx[..n], &s.dz[..n], &mut s.x[..n], &mut s.z[..n]);
    for i in 0..n {
        x[i] += primal * dx[i];
        z[i] += dual * dz[i];
    }
    let (slide, r) = (&s.slide[..m], &mut s.residual[..m]);
    for i in 0..m {
        r[i] -= primal * slide[i];
    }
}
for_each_cpu!(shift, shift_wide, move_body, (s: &mut Rows, primal: f64, dual: f64));

#[no_mangle]
pub unsafe extern "C" fn rows_new(dsyrk: Dsyrk, dgemv: Dgemv, m: usize, r: usize, columns: *const f64, x: *const f64, z: *const f64, residual: *const f64) -> *mut Rows {
    let empty = |n: usize| vec![0.0; n];
    Box::into_raw(Box::new(Rows {
        columns, m, r, dsyrk, dgemv,
        x: read(x, 2 * m).to_vec(), z: read(z, 2 * m).to_vec(), residual: read(residual, m).to_vec(),
        ratio: empty(2 * m), target: empty(2 * m), dx: empty(2 * m), dz: empty(2 * m),
        d: empty(m), root: empty(m), force: empty(m), slide: empty(m), scaled: empty(m * r),
    }))
}

#[no_mangle]
pub unsafe extern "C" fn rows_free(s: *mut Rows) {
    drop(Box::from_raw(s));
}

#[no_mangle]
pub unsafe extern "C" fn rows_curvature(s: &mut Rows, out: *mut f64) {
    let (m, r) = (s.m as i32, s.r as i32);
    scale(s, read(s.columns, s.m * s.r));
    (s.dsyrk)(b"L".as_ptr(), b"T".as_ptr(), &r, &m, &1.0, s.scaled.as_ptr(), &m, &0.0, out, &r);
    for i in 0..s.r {
        for j in 0..i {
            *out.add(i * s.r + j) = *out.add(j * s.r + i);
        }
    }
    s.target.fill(0.0);
}

#[no_mangle]
pub unsafe extern "C" fn rows_pull(s: &mut Rows, out: *mut f64) {
    push(s);
    (s.dgemv)(b"T".as_ptr(), &(s.m as i32), &(s.r as i32), &1.0, s.columns, &(s.m as i32), s.force.as_ptr(), &1, &0.0, out, &1);
}

#[no_mangle]
pub unsafe extern "C" fn rows_direction(s: &mut Rows, dw: *const f64, longest: *mut f64) {
    let slide = s.slide.as_mut_ptr();
    (s.dgemv)(b"N".as_ptr(), &(s.m as i32), &(s.r as i32), &1.0, s.columns, &(s.m as i32), dw, &1, &0.0, slide, &1);
    let (primal, dual) = turn(s);
    *longest = if primal < 0.0 { -1.0 / primal } else { 1e30 };
    *longest.add(1) = if dual < 0.0 { -1.0 / dual } else { 1e30 };
}

#[no_mangle]
pub unsafe extern "C" fn rows_aim(s: &mut Rows, mu: f64) {
    aim(s, mu);
}

#[no_mangle]
pub unsafe extern "C" fn rows_move(s: &mut Rows, primal: f64, dual: f64) {
    shift(s, primal, dual);
}

#[no_mangle]
pub unsafe extern "C" fn rows_read(s: &Rows, x: *mut f64, z: *mut f64, residual: *mut f64) {
    s.x.as_ptr().copy_to(x, 2 * s.m);
    s.z.as_ptr().copy_to(z, 2 * s.m);
    s.residual.as_ptr().copy_to(residual, s.m);
}
