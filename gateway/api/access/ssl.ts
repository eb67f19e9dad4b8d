import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
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
    names: Type.Array(Type.String(), {
      description: 'Host names and IP addresses for which the certificate is valid.',
    }),
    not_before: timeSchema('the certificate becomes valid'),
    not_after: timeSchema('the certificate expires'),
    fingerprint: Type.String({ description: 'SHA-256 fingerprint of the certificate.' }),
    trusted: Type.Boolean({
      description: '`true`: browsers trust the certificate without any additional root certificate.',
    }),
    renews_at: Type.String({
      ...TimeSchema,
      description: 'Time of the automatic renewal. Empty: the certificate is not renewed automatically.',
    }),
  },
  { title: 'TlsCertificate' },
)

const SslSchema = Type.Object(
  {
    enabled: Type.Boolean(),
    mode: oneOf(tlsModes, 'Source of the certificate. `disabled`: TLS is off.'),
    target: Type.String({ description: 'Host name or IP address for which the certificate is issued.' }),
    email: Type.String({ description: 'Contact address for mail from the certificate authority.' }),
    detected_host: Type.Optional(
      Type.String({
        description: 'Host name or IP address that the client used for this request. Only returned by GET.',
      }),
    ),
    needs_restart: Type.Boolean({
      description: 'Deprecated. Always `false`: changes take effect before the answer is sent.',
    }),
    port: Type.Integer({ description: 'Port on which this gateway serves HTTPS. 0: it does not serve HTTPS.' }),
    certificate: Type.Union([CertificateSchema, Type.Null()], {
      description: 'Present certificate. `null`: no certificate exists.',
    }),
    warnings: Type.Array(Type.String(), {
      description: 'Problems with TLS that an administrator should fix. An empty list: there are none.',
    }),
  },
  { title: 'Ssl' },
)

const pem = (description: string, more: object = {}) =>
  Type.Optional(Type.String({ maxLength: 65_536, description, ...more }))

/** Also accepts the spelling `self-signed`, which the documentation does not mention. */
const ModeSchema = Type.Unsafe<TlsMode | 'self-signed'>({
  type: 'string',
  enum: [...tlsModes, 'self-signed'],
  description: 'Source of the certificate. `disabled`: turn TLS off. If omitted, the source is unchanged.',
})

const BodySchema = Type.Object(
  {
    enabled: Type.Optional(
      Type.Boolean({
        description:
          '`true`: TLS is on. Default: `false` with the `mode` `disabled`, `true` with any other `mode`, and unchanged without a `mode`.',
      }),
    ),
    mode: Type.Optional(ModeSchema),
    target: Type.Optional(
      Type.String({
        maxLength: 260,
        description:
          'Host name or IP address for which the certificate is issued. If omitted, it is unchanged; the initial value is `detected_host`. Empty: removed if TLS is off, else unchanged.',
      }),
    ),
    email: Type.Optional(
      Type.String({
        maxLength: 254,
        description:
          'Contact address for mail from the certificate authority. If omitted, it is unchanged. Empty: removed if TLS is off, else unchanged.',
      }),
    ),
    cert_pem: pem(
      'Only for mode `uploaded`: the certificate and the intermediate certificates, in PEM. If omitted, they are unchanged.',
    ),
    key_pem: pem(
      'Only for mode `uploaded`: the private key of the certificate, in PEM, without a passphrase. It is never returned.',
      {
        writeOnly: true,
      },
    ),
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
      summary: 'Returns the TLS settings and the certificate of this API',
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
      summary: 'Tests the certificate and then changes the TLS settings on every gateway. Open connections continue',
      body: BodySchema,
      example: { enabled: true, mode: 'letsencrypt', target: 'panel.example', email: 'admin@panel.example' },
      errors: [
        ...uploadCodes,
        ...acmeCodes,
        'ssl_busy',
        'ssl_changed',
        'ssl_probe_failed',
        'tls_not_configured',
        'port_conflict',
        'port_denied',
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

/** Checks that an address is ASCII, as certificate authorities require. @throws {BerthError} `invalid_field` */
function parseEmail(text: string): string {
  if (text === '' || /^[\w.+-]{1,64}@([a-z0-9-]+\.)+[a-z0-9-]+$/i.test(text)) return text
  throw invalidField('email', 'email: must be an email address, for example "admin@panel.example"')
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
    enabled,
    mode,
    target,
    email,
    needs_restart: false,
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
    subject: facts.subject,
    issuer: facts.issuer,
    names: [...facts.names],
    not_before: time.format(notBeforeMs),
    not_after: time.format(notAfterMs),
    fingerprint: facts.fingerprint,
    trusted,
    renews_at: mode === 'uploaded' ? '' : time.format(dueAtMs({ notBeforeMs, notAfterMs })),
  }
}
