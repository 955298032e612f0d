{{- define "notifier.labels" -}}
app.kubernetes.io/name: notifier
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "notifier.variable" -}}
{{ . | upper | replace "-" "_" }}
{{- end -}}

{{/* notifier.grace is the grace period of pods; a smaller one is refused. */}}
{{- define "notifier.grace" -}}
{{- $least := add .Values.shutdownDelay .Values.shutdownTimeout 5 | int -}}
{{- $grace := .Values.terminationGracePeriodSeconds | int -}}
{{- if and $grace (lt $grace $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: want 0, or at least %d (shutdownDelay + shutdownTimeout + 5), so that running calls can finish" $grace $least) -}}
{{- end -}}
{{- $grace | default $least -}}
{{- end -}}

{{- define "notifier.secret" -}}
valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end -}}
