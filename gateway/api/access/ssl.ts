import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { acmeCodes } from '../../tls/acme/errors.js'
import { factsOf } from '../../tls/certificate.js'
import { uploadCodes } from '../../tls/check-upload.js'
import type { WantedTls } from '../../tls/plan-change.js'
import { dueAtMs } from '../../tls/plan-renewal.js'
import { tlsModes, type StoredCertificate, type TlsMode, type TlsSettings } from '../../tls/tls-settings.js'
import { detectHost, parseTarget } from '../../tls/target.js'
import type { Tls } from '../../tls/tls.js'

const CertificateSchema = Type.Object(
  {
    subject: Type.String(),
    issuer: Type.String(),
    names: Type.Array(Type.String(), { description: 'Host names and addresses.' }),
    not_before: TimeSchema,
    not_after: TimeSchema,
    fingerprint: Type.String({ description: 'SHA-256.' }),
    trusted: Type.Boolean({ description: 'By browsers, without any further certificate.' }),
    renews_at: Type.String({ ...TimeSchema, description: 'When it is replaced by itself; empty: never.' }),
  },
  { title: 'TlsCertificate' },
)

const SslSchema = Type.Object(
  {
    enabled: Type.Boolean(),
    mode: oneOf(tlsModes, 'Where the certificate comes from.'),
    target: Type.String({ description: 'Host name or address that the certificate is for.' }),
    email: Type.String({ description: 'Where the certificate authority writes to.' }),
    detected_host: Type.Optional(
      Type.String({ description: 'Name or address by which this request came; with GET only.' }),
    ),
    needs_restart: Type.Boolean({ description: 'Never: what changes is in force with the answer.' }),
    port: Type.Integer({ description: 'Where this gateway speaks TLS; 0: nowhere.' }),
    certificate: Type.Union([CertificateSchema, Type.Null()], { description: 'null: there is none.' }),
    warnings: Type.Array(Type.String(), { description: 'What an administrator should know.' }),
  },
  { title: 'Ssl' },
)

const pem = (description: string, more: object = {}) =>
  Type.Optional(Type.String({ maxLength: 65_536, description, ...more }))

/** `self-signed` is another spelling, not shown. */
const ModeSchema = Type.Unsafe<TlsMode | 'self-signed'>({
  type: 'string',
  enum: [...tlsModes, 'self-signed'],
  description: 'Where the certificate comes from. Absent: as it is.',
})

const BodySchema = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: 'Absent: as `mode` says, or as it is.' })),
    mode: Type.Optional(ModeSchema),
    target: Type.Optional(
      Type.String({
        maxLength: 260,
        description:
          'Host name or address. Absent: unchanged, initially `detected_host`. Empty: removed while TLS is off.',
      }),
    ),
    email: Type.Optional(
      Type.String({ maxLength: 254, description: 'Absent: unchanged. Empty: removed while TLS is off.' }),
    ),
    cert_pem: pem('Of mode uploaded: the certificate and those that lead to its issuer. Absent: as it is.'),
    key_pem: pem('Of mode uploaded: its private key, without a passphrase. Never shown.', {
      writeOnly: true,
    }),
    apply_now: Type.Optional(Type.Boolean({ description: 'Deprecated. Ignored.' })),
  },
  { title: 'NewSsl' },
)

export interface SslRouteOptions {
  readonly tls: Tls
  readonly time: TimeFormat
}

export function sslRoutes({ tls, time }: SslRouteOptions): Route[] {
  const common = {
    path: '/ssl',
    scope: 'admin:access',
    bound: 'refused',
    tag: 'Settings',
    data: SslSchema,
  } as const
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getSsl',
      summary: 'TLS of this interface, and its certificate',
      handle: ({ headers }) => ({
        data: {
          ...sslRow(tls.documents.settings.current, { tls, time }),
          detected_host: detectHost(headers.host),
        },
      }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateSsl',
      confirmed: true,
      audit: 'ssl.update',
      summary: 'Changes TLS at every gateway, once the certificate was tried; connections go on',
      body: BodySchema,
      example: { enabled: true, mode: 'letsencrypt', target: 'panel.example', email: 'admin@panel.example' },
      errors: [
        ...[...uploadCodes, ...acmeCodes],
        ...[
          'ssl_busy',
          'ssl_changed',
          'ssl_probe_failed',
          'tls_not_configured',
          'port_conflict',
          'port_denied',
        ],
      ],
      handle: async (context) => {
        const wanted = parseWanted(context.body)
        context.audit({ detail: auditText(wanted) })
        const settings = await tls.change(wanted, detectHost(context.headers.host))
        context.audit({ target: settings.target, detail: resultText(settings) })
        return { message: 'TLS updated', data: sslRow(settings, { tls, time }) }
      },
    }),
  ]
}

/** @throws {BerthError} `invalid_field` */
function parseWanted(body: Static<typeof BodySchema>): WantedTls {
  const given = (text: string | undefined): string | undefined => (text?.trim() ? text : undefined)
  const target = body.target?.trim()
  return {
    enabled: body.enabled,
    mode: body.mode === 'self-signed' ? 'self_signed' : body.mode,
    target: target ? parseTarget(target) : target,
    email: body.email === undefined ? undefined : parseEmail(body.email.trim()),
    certPem: given(body.cert_pem),
    keyPem: given(body.key_pem),
  }
}

/** ASCII, as certificate authorities take it. @throws {BerthError} `invalid_field` */
function parseEmail(text: string): string {
  if (text === '' || /^[\w.+-]{1,64}@([a-z0-9-]+\.)+[a-z0-9-]+$/i.test(text)) return text
  throw invalidField('email', 'email: must be an address of mail, for example "admin@panel.example"')
}

function auditText({ enabled, mode, target }: WantedTls): string {
  return [enabled === false ? 'off' : '', mode, target].filter(Boolean).join(', ')
}

function resultText({ enabled, mode, current }: TlsSettings): string {
  return enabled && current ? `${mode}, ${current.fingerprint}` : 'off'
}

function sslRow(settings: TlsSettings, { tls, time }: SslRouteOptions): Static<typeof SslSchema> {
  const { enabled, mode, target, email, current } = settings
  return {
    ...{ enabled, mode, target, email, needs_restart: false },
    port: enabled ? (tls.address?.port ?? 0) : 0,
    certificate: current ? certificateRow(current, time) : null,
    warnings: [...tls.warnings],
  }
}

function certificateRow(
  { chainPem, mode, trusted }: StoredCertificate,
  time: TimeFormat,
): Static<typeof CertificateSchema> {
  const { notBeforeMs, notAfterMs, ...facts } = factsOf(chainPem)
  return {
    ...{ subject: facts.subject, issuer: facts.issuer, names: [...facts.names] },
    not_before: time.format(notBeforeMs),
    not_after: time.format(notAfterMs),
    fingerprint: facts.fingerprint,
    trusted,
    renews_at: mode === 'uploaded' ? '' : time.format(dueAtMs({ notBeforeMs, notAfterMs })),
  }
}
