// The piece in C++ with nanobind: loops from rows.h, BLAS by the pointers that SciPy exports.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <cstring>
#include <vector>

#include "rows.h"

namespace nb = nanobind;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Dsyrk = void (*)(char *, char *, int *, int *, double *, const double *, int *, double *, double *, int *);
using Dgemv = void (*)(char *, int *, int *, double *, const double *, int *, const double *, int *, double *, double *, int *);

static Dsyrk dsyrk;
static Dgemv dgemv;

template <class F> static F from_scipy(const char *name)
{
    nb::object capsules = nb::module_::import_("scipy.linalg.cython_blas").attr("__pyx_capi__");
    nb::object capsule = capsules[name];
    return reinterpret_cast<F>(PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())));
}

static nb::object array(double *data, std::initializer_list<size_t> shape)
{
    nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<double *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, double>(data, shape, owner), nb::rv_policy::reference);
}

struct Rows {
    Matrix columns;
    int m, R;
    std::vector<double> x, z, residual, ratio, target, dx, dz, D, root, force, slide, scaled;

    Rows(Matrix columns, Matrix x0, Matrix z0, Vector r0)
        : columns(columns), m(int(columns.shape(1))), R(int(columns.shape(0))), x(x0.data(), x0.data() + 2 * m),
          z(z0.data(), z0.data() + 2 * m), residual(r0.data(), r0.data() + m), ratio(2 * m), target(2 * m),
          dx(2 * m), dz(2 * m), D(m), root(m), force(m), slide(m), scaled(size_t(m) * R) {}

    nb::object curvature()
    {
        double *H = new double[size_t(R) * R], one = 1.0, zero = 0.0;
        char lower = 'L', transposed = 'T';
        scale_rows(m, R, columns.data(), x.data(), z.data(), ratio.data(), D.data(), root.data(), scaled.data());
        dsyrk(&lower, &transposed, &R, &m, &one, scaled.data(), &m, &zero, H, &R);
        for (int i = 0; i < R; i++)
            for (int j = 0; j < i; j++)
                H[i * R + j] = H[j * R + i];
        std::memset(target.data(), 0, target.size() * sizeof(double));
        return array(H, {size_t(R), size_t(R)});
    }

    nb::object pull()
    {
        double *out = new double[R], one = 1.0, zero = 0.0;
        char transposed = 'T';
        int step = 1;
        push_rows(m, residual.data(), target.data(), D.data(), force.data());
        dgemv(&transposed, &m, &R, &one, columns.data(), &m, force.data(), &step, &zero, out, &step);
        return array(out, {size_t(R)});
    }

    std::pair<double, double> direction(Vector dw)
    {
        double one = 1.0, zero = 0.0, worst[2];
        char plain = 'N';
        int step = 1;
        dgemv(&plain, &m, &R, &one, columns.data(), &m, dw.data(), &step, &zero, slide.data(), &step);
        turn_rows(m, x.data(), z.data(), ratio.data(), D.data(), force.data(), target.data(), slide.data(),
                  dx.data(), dz.data(), worst);
        return {worst[0] < 0 ? -1.0 / worst[0] : 1e30, worst[1] < 0 ? -1.0 / worst[1] : 1e30};
    }

    void aim(double mu) { aim_rows(m, mu, dx.data(), dz.data(), z.data(), target.data()); }

    void move(double primal, double dual)
    {
        move_rows(m, primal, dual, dx.data(), dz.data(), slide.data(), x.data(), z.data(), residual.data());
    }

    static nb::object copy(const std::vector<double> &v, std::initializer_list<size_t> shape)
    {
        double *data = new double[v.size()];
        std::memcpy(data, v.data(), v.size() * sizeof(double));
        return array(data, shape);
    }
};

NB_MODULE(nanobind_form, module)
{
    dsyrk = from_scipy<Dsyrk>("dsyrk");
    dgemv = from_scipy<Dgemv>("dgemv");
    nb::class_<Rows>(module, "Rows")
        .def(nb::init<Matrix, Matrix, Matrix, Vector>())
        .def("curvature", &Rows::curvature)
        .def("pull", &Rows::pull)
        .def("direction", &Rows::direction)
        .def("aim", &Rows::aim)
        .def("move", &Rows::move)
        .def_prop_ro("x", [](Rows &r) { return Rows::copy(r.x, {2, size_t(r.m)}); })
        .def_prop_ro("z", [](Rows &r) { return Rows::copy(r.z, {2, size_t(r.m)}); })
        .def_prop_ro("residual", [](Rows &r) { return Rows::copy(r.residual, {size_t(r.m)}); });
}
