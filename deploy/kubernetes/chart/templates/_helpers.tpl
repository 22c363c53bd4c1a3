{{/* The first part of all names: the release, with "tandem" if the release does not say it. */}}
{{- define "tandem.name" -}}
{{- if contains "tandem" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-tandem" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tandem.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Selector of a component; the argument is (list $ "node"). */}}
{{- define "tandem.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: tandem
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "tandem.labels" -}}
{{- $root := index . 0 -}}
{{ include "tandem.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end }}

{{/* The value of a key of an existing Secret, so that an upgrade keeps it; otherwise a random one. (list $ secret key length) */}}
{{- define "tandem.kept" -}}
{{- $root := index . 0 -}}
{{- $old := lookup "v1" "Secret" $root.Release.Namespace (index . 1) | default dict -}}
{{- $data := $old.data | default dict -}}
{{- index $data (index . 2) | default (randAlphaNum (int (index . 3)) | b64enc) -}}
{{- end }}

{{- define "tandem.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tandem.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Probes of the admin interface: the process lives at once, and is ready when it takes calls. */}}
{{- define "tandem.probes" -}}
startupProbe:
  httpGet: {path: /health/live, port: admin}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /health/live, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /health/ready, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}

{{/* Spread the pods of a component over the nodes of the cluster. */}}
{{- define "tandem.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "tandem.selector" . | nindent 8 }}
{{- end }}

{{/* A container of `helm test` that reaches the database. (list $ name arguments) */}}
{{- define "tandem.testContainer" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
image: {{ include "tandem.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args: {{ index . 2 | toJson }}
env:
  - {name: TANDEM_DATABASE_URL_FILE, value: /etc/tandem/stores/database.url}
  - {name: PASSWORD, valueFrom: {secretKeyRef: {name: {{ include "tandem.name" $root }}-test-users, key: password}}}
securityContext: {{- include "tandem.containerSecurity" $root | nindent 2 }}
volumeMounts:
  - {name: stores, mountPath: /etc/tandem/stores, readOnly: true}
  - {name: test, mountPath: /etc/tandem/test, readOnly: true}
{{- end }}
