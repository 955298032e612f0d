# Builds with the classic builder too, and without a registry: see
# scripts/ci-images.sh for images made of what a machine has.
ARG BUILD_IMAGE=golang:1.26
ARG RUN_IMAGE=scratch

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
# The modules alone first: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG REVISION=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" -o /out/notifier ./cmd/notifier

FROM ${RUN_IMAGE}
ARG VERSION=devel
ARG REVISION=
LABEL org.opencontainers.image.title=notifier org.opencontainers.image.version=${VERSION} org.opencontainers.image.revision=${REVISION}
# To call https receivers, the service needs to know whom to trust.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/notifier /notifier
# Nobody in particular, and by number: Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080
# Where others reach the API it wants NOTIFIER_CLIENTS; without, the service
# refuses to start.
ENV NOTIFIER_LISTEN=:8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/notifier", "doctor", "--quick"]
ENTRYPOINT ["/notifier"]
CMD ["serve"]
