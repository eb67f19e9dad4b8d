/** A form of the panel, with values for all its fields. */
export interface Form {
  readonly name: string
  /** Operation that the form sends, as `METHOD /path` in the OpenAPI document. */
  readonly operation: string
  readonly page: string
  /** Button that opens the form. Undefined: the form is part of the page. */
  readonly button?: string
  /** Title of a collapsed part of the form, which the test opens. */
  readonly unfold?: string
  /** Values of controls by their ids; `true` selects a checkbox. Other controls keep their default values. */
  readonly values: Readonly<Record<string, string | true>>
  /** Labels of additional checkboxes to select. */
  readonly ticks?: readonly string[]
  /** Button that sends the form. Default: it has the same name as the button that opens the form. */
  readonly submit?: string
  /** Optional fields that the form does not send, with the reason. */
  readonly without?: Readonly<Record<string, string>>
}

const password = 'a-password-of-the-vault'
const privateKey = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n'
const hostKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFuYYb6WDYH4hbfmGCwWrnYbxYW8rM4N8hQdPYcWnLvM'
const otherKinds = 'belongs to another kind of target'
const ofSftp = {
  host: otherKinds,
  port: otherKinds,
  user: otherKinds,
  host_key: otherKinds,
  private_key: otherKinds,
}
const ofS3 = {
  endpoint: otherKinds,
  region: otherKinds,
  bucket: otherKinds,
  prefix: otherKinds,
  access_key_id: otherKinds,
  secret_access_key: otherKinds,
  ca_certificate: otherKinds,
}
const target = {
  operation: 'POST /backup-targets',
  page: '/backups',
  button: 'Add a target',
  submit: 'Add and check',
  ticks: ['I have stored this password outside Berth'],
}
const onCustomerPage = 'is set on the page of the customer'

export const forms: readonly Form[] = [
  {
    ...target,
    name: 'a new backup target in a directory',
    values: { 'target-name': 'disk', 'target-path': '/srv/backups', 'target-encryption_password': password },
    without: { ...ofSftp, ...ofS3 },
  },
  {
    ...target,
    name: 'a new backup target on an SFTP server',
    values: {
      'target-type': 'sftp',
      'target-name': 'vault',
      'target-host': 'vault.example.com',
      'target-port': '2222',
      'target-user': 'berth',
      'target-path': 'kept/here',
      'target-host_key': hostKey,
      'target-private_key': privateKey,
      'target-encryption_password': password,
    },
    without: ofS3,
  },
  {
    ...target,
    name: 'a new backup target in an S3 bucket',
    values: {
      'target-type': 's3',
      'target-name': 'cloud',
      'target-endpoint': 'https://s3.example.com',
      'target-region': 'eu-1',
      'target-bucket': 'berth-backups',
      'target-prefix': 'a/b',
      'target-access_key_id': 'AKIDEXAMPLE',
      'target-secret_access_key': 'secret+of/the=cloud',
      'target-encryption_password': password,
    },
    without: { ...ofSftp, path: otherKinds, ca_certificate: 'is for private certificate authorities' },
  },
  {
    name: 'a new host',
    operation: 'POST /hosts',
    page: '/hosts',
    button: 'Add a host',
    unfold: 'Advanced',
    values: { 'host-name': 'node9', 'host-address': '198.51.100.9:7443', 'host-public': 'node9.example.com' },
  },
  {
    name: 'a change of a host',
    operation: 'PATCH /hosts/{id}',
    page: '/hosts/host-a',
    button: 'Edit',
    submit: 'Save',
    values: { 'host-public': '192.0.2.11' },
    without: { draining: 'has a button of its own' },
  },
  {
    name: 'the public URL',
    operation: 'PUT /public-url',
    page: '/settings',
    submit: 'Save',
    values: { 'public-url': 'https://panel.example.com' },
  },
  {
    name: 'the name of the provider',
    operation: 'PUT /branding',
    page: '/settings',
    submit: 'Save',
    values: { 'brand-name': 'Example Hosting' },
    without: { logo: 'is sent after a picture was selected' },
  },
  {
    name: 'an API key',
    operation: 'POST /api-keys',
    page: '/api',
    button: 'Create API key',
    values: {
      'key-name': 'billing',
      'key-rights': 'some',
      'key-ips': '192.0.2.0/24',
      'key-expiry': '2031-01-01T00:00',
    },
    ticks: ['backup:read'],
    without: {
      container_uuids: 'is for integrations, which use the API',
      disabled: 'has a button of its own',
    },
  },
  {
    name: 'an administrator',
    operation: 'POST /admins',
    page: '/settings',
    button: 'Add an administrator',
    submit: 'Create a link',
    values: { 'admin-name': 'hedy', 'admin-role': 'operator' },
    without: { password: 'is set by the link' },
  },
  {
    name: 'an SSH key',
    operation: 'POST /account/ssh-keys',
    page: '/account',
    button: 'Add an SSH key',
    values: { 'ssh-key-name': 'laptop', 'ssh-key-public': hostKey },
  },
  {
    name: 'a new customer',
    operation: 'POST /sub-user/create',
    page: '/sub-users',
    button: 'Add a customer',
    values: { 'customer-name': 'filled' },
    ticks: ['formed'],
    without: {
      container_name: 'is the old form of container_names',
      permissions: onCustomerPage,
      allowed_image_ids: onCustomerPage,
      disabled: onCustomerPage,
      image_limit_configured: onCustomerPage,
      port_mapping_limit: onCustomerPage,
      expires_at: onCustomerPage,
    },
  },
  {
    name: 'a change of a customer',
    operation: 'PATCH /sub-users/{id}',
    page: '/sub-users/{customer}',
    submit: 'Save',
    values: { 'customer-ports': '7', 'customer-expiry': '2031-01-01T00:00', 'customer-images': true },
    without: { container_names: 'would replace the guests that another administrator assigns at the same time' },
  },
  {
    name: 'a gateway',
    operation: 'POST /gateways',
    page: '/gateways',
    button: 'Add a gateway',
    submit: 'Create command',
    values: { 'gateway-name': 'gateway-2' },
  },
  {
    name: 'a webhook',
    operation: 'POST /webhooks',
    page: '/webhooks',
    button: 'Add a webhook',
    values: { 'webhook-name': 'billing', 'webhook-url': 'http://127.0.0.1:9/hook' },
    without: {
      disabled: 'has a button of its own',
      description: 'is for integrations',
      secret: 'is generated',
      container_uuids: 'is for integrations',
    },
  },
  {
    name: 'a port mapping',
    operation: 'POST /containers/{id}/port-mappings',
    page: '/containers/{guest}/network',
    button: 'Add a port',
    submit: 'Add',
    values: { 'map-inner': '8080', 'map-outer': '', 'map-count': '2', 'map-note': 'web' },
    without: {
      host_port_end: 'follows from the number of ports, since the gateway chooses the first port',
      host_ip: 'is for integrations',
    },
  },
  {
    name: 'devices of the host',
    operation: 'PUT /containers/{id}/devices',
    page: '/containers/{guest}/settings',
    submit: 'Save',
    values: { 'device-tun': true, 'device-fuse': true },
  },
  {
    name: 'a traffic quota for each direction',
    operation: 'PUT /containers/{id}/traffic-limit',
    page: '/containers/{guest}/settings',
    submit: 'Save',
    values: { 'traffic-mode': 'split', 'traffic-in': '100', 'traffic-out': '200', 'traffic-day': '15' },
    without: { monthly_traffic_gb: 'is for both directions together' },
  },
  {
    name: 'the reaction to alerts about a guest',
    operation: 'PUT /containers/{id}/security',
    page: '/containers/{guest}/settings',
    submit: 'Save',
    values: { 'abuse-smtp': 'open', 'abuse-exempt': true },
  },
  {
    name: 'the reaction to alerts on a host',
    operation: 'PUT /security/settings',
    page: '/hosts/host-a',
    submit: 'Save',
    values: { 'auto-shutdown': true },
  },
  {
    name: 'limits for snapshots',
    operation: 'PUT /containers/{id}/snapshots/quota',
    page: '/containers/{guest}/snapshots',
    submit: 'Save',
    values: { 'snapshot-quota': '7', 'snapshot-space': '40' },
    without: { quota: 'is an alias of snapshot_limit' },
  },
  {
    name: 'a backup schedule',
    operation: 'POST /containers/{id}/backups/schedule',
    page: '/containers/{guest}/backups',
    submit: 'Save',
    values: {
      'backups-schedule-enabled': true,
      'backups-schedule-hours': '12',
      'backups-schedule-time': '04:30',
      'backups-schedule-keep': '5',
    },
  },
]
