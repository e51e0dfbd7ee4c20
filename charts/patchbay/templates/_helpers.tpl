{{/* The image of both controllers. */}}
{{- define "patchbay.image" -}}
{{ .Values.global.image.repository }}:{{ .Values.global.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Arguments of both controllers, one line for each. */}}
{{- define "patchbay.arguments" -}}
{{- range compact (splitList "," (nospace .Values.serviceNetwork)) }}
- --service-cidr={{ . }}
{{- end }}
{{- range compact (splitList "," (nospace .Values.podNetwork)) }}
- --pod-cidr={{ regexReplaceAll "^([^/]+/[0-9]+)/[0-9]+$" . "${1}" }}
{{- end }}
{{- with .Values.global }}
{{- range compact (list .v4JoinSubnet .v6JoinSubnet) }}
- --join-cidr={{ . }}
{{- end }}
{{- range compact (list .v4TransitSubnet .v6TransitSubnet) }}
- --transit-cidr={{ . }}
{{- end }}
{{- range compact (list .v4MasqueradeSubnet .v6MasqueradeSubnet) }}
- --masquerade-cidr={{ . }}
{{- end }}
{{- with .gatewayMode }}
- --gateway-mode={{ . }}
{{- end }}
{{- end }}
{{- with .Values.mtu }}
- --mtu={{ . }}
{{- end }}
{{- $features := list }}
{{- range $value, $feature := dict "enableAdminNetworkPolicy" "admin-network-policy" "enableDynamicUDNAllocation" "dynamic-udn-allocation" "enableEgressFirewall" "egress-firewall" "enableEgressIp" "egress-ip" "enableEVPN" "evpn" "enableMulticast" "multicast" "enableRouteAdvertisements" "route-advertisements" "enableUplink" "uplink" }}
{{- if get $.Values.global $value }}
{{- $features = append $features $feature }}
{{- end }}
{{- end }}
{{- with sortAlpha $features }}
- --enable={{ join "," . }}
{{- end }}
{{- if .Values.networks }}
- --networks
{{- end }}
{{- end }}
