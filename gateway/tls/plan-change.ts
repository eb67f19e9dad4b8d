import { BerthError, invalidField } from '../../shared/errors.js'
import { dueAtMs, type Validity } from './plan-renewal.js'
import type { StoredCertificate, TlsMode, TlsSettings } from './tls-settings.js'

/** A requested change. Undefined fields stay unchanged. */
export interface WantedTls {
  readonly enabled: boolean | undefined
  readonly mode: TlsMode | undefined
  /** Canonical name or address. "" removes the stored one, which is only allowed if TLS is off after the change. */
  readonly target: string | undefined
  /** Mail address. "" removes the stored one, which is only allowed if TLS is off after the change. */
  readonly email: string | undefined
  readonly certPem: string | undefined
  readonly keyPem: string | undefined
}

/** Certificate to use: no certificate, a stored certificate, or a new certificate. */
export type CertificatePlan =
  | { readonly from: 'none' }
  | { readonly from: 'stored'; readonly stored: StoredCertificate }
  | { readonly from: 'upload'; readonly certPem: string; readonly keyPem: string }
  | { readonly from: 'self_signed' | 'letsencrypt' }

export interface TlsPlan extends Pick<TlsSettings, 'enabled' | 'mode' | 'target' | 'email'> {
  readonly certificate: CertificatePlan
}

export interface TlsChangeContext {
  readonly old: TlsSettings
  /** Name or address with which this request reached the gateway. It is the default for `target`. */
  readonly detectedHost: string
  readonly nowMs: number
  /** Returns the period in which a stored certificate is valid. */
  validity(stored: StoredCertificate): Validity
}

/** Plans a requested change of TLS. @throws {BerthError} `invalid_field`, `missing_field` */
export function planTlsChange(wanted: WantedTls, context: TlsChangeContext): TlsPlan {
  const { old } = context
  const mode = wanted.mode ?? old.mode
  const enabled = wanted.enabled ?? (wanted.mode === undefined ? old.enabled : mode !== 'disabled')
  if (enabled && mode === 'disabled')
    throw invalidField('mode', 'mode: must be self_signed, uploaded or letsencrypt if TLS is enabled')
  const known = { target: old.target || context.detectedHost, email: old.email }
  if (!enabled) return { enabled, mode, ...planOff(wanted, known), certificate: { from: 'none' } }
  const next = { enabled, mode, target: wanted.target || known.target, email: wanted.email || known.email }
  if (next.target === '') throw missing('target')
  return { ...next, certificate: planCertificate(wanted, next, context) }
}

type Names = Pick<TlsPlan, 'target' | 'email'>

/** Without TLS, target and mail address are optional. An empty value in the request removes the stored value. */
function planOff({ target, email }: WantedTls, known: Names): Names {
  return { target: target ?? known.target, email: email ?? known.email }
}

function planCertificate(
  wanted: WantedTls,
  { mode, target }: Pick<TlsPlan, 'mode' | 'target'>,
  context: TlsChangeContext,
): CertificatePlan {
  const stored = findStored(mode, context)
  if (mode === 'uploaded') return planUpload(wanted, stored)
  const isFresh = stored?.target === target && dueAtMs(context.validity(stored)) > context.nowMs
  if (stored && isFresh) return { from: 'stored', stored }
  return { from: mode === 'letsencrypt' ? mode : 'self_signed' }
}

function planUpload({ certPem, keyPem }: WantedTls, stored: StoredCertificate | undefined): CertificatePlan {
  if (certPem !== undefined && keyPem !== undefined) return { from: 'upload', certPem, keyPem }
  if (certPem === undefined && keyPem === undefined && stored) return { from: 'stored', stored }
  throw missing(certPem === undefined ? 'cert_pem' : 'key_pem')
}

function findStored(mode: TlsMode, { old }: TlsChangeContext): StoredCertificate | undefined {
  return [old.current, old.previous].find((stored) => stored?.mode === mode) ?? undefined
}

function missing(field: string): BerthError {
  return new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
}
