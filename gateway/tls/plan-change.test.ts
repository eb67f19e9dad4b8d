import { expect } from 'chai'
import { planTlsChange, type WantedTls } from './plan-change.js'
import type { StoredCertificate, TlsMode, TlsSettings } from './tls-settings.js'

const stored = (mode: TlsMode, target = 'a.example'): StoredCertificate => ({
  mode,
  target,
  chainPem: mode,
  sealedKey: '',
  fingerprint: mode,
  trusted: false,
})
const untouched: TlsSettings = {
  change: '',
  enabled: false,
  mode: 'disabled',
  target: '',
  email: '',
  current: null,
  previous: null,
}
const nothing: WantedTls = {
  enabled: undefined,
  mode: undefined,
  target: undefined,
  email: undefined,
  certPem: undefined,
  keyPem: undefined,
}
const own: TlsSettings = {
  ...untouched,
  enabled: true,
  mode: 'self_signed',
  target: 'a.example',
  current: stored('self_signed'),
}
const pair = { certPem: 'cert', keyPem: 'key' }

function plan(wanted: Partial<WantedTls>, old: TlsSettings, nowMs = 0): unknown {
  const validity = () => ({ notBeforeMs: -100, notAfterMs: 100 })
  try {
    const { enabled, mode, target, certificate } = planTlsChange(
      { ...nothing, ...wanted },
      { old, detectedHost: 'host.example', nowMs, validity },
    )
    return [enabled, mode, target, certificate.from]
  } catch (error) {
    const { code, field } = error as { code: string; field: string }
    return [code, field]
  }
}

describe('a TLS change', () => {
  for (const [what, wanted, old, expected, nowMs] of [
    ['with an empty request does nothing while TLS is off', {}, untouched, [false, 'disabled', 'host.example', 'none']],
    ['without a mode cannot turn TLS on', { enabled: true }, untouched, ['invalid_field', 'mode']],
    [
      'with a mode turns TLS on',
      { mode: 'self_signed' },
      untouched,
      [true, 'self_signed', 'host.example', 'self_signed'],
    ],
    [
      'with a mode that turns TLS off stores the mode',
      { mode: 'letsencrypt', enabled: false },
      own,
      [false, 'letsencrypt', 'a.example', 'none'],
    ],
    [
      'does not change the mode when it turns TLS off',
      { enabled: false },
      own,
      [false, 'self_signed', 'a.example', 'none'],
    ],
    ['to the mode disabled turns TLS off', { mode: 'disabled' }, own, [false, 'disabled', 'a.example', 'none']],
    [
      'to the current mode keeps the certificate',
      { mode: 'self_signed' },
      own,
      [true, 'self_signed', 'a.example', 'stored'],
    ],
    [
      'without fields renews a certificate that is due for renewal',
      {},
      own,
      [true, 'self_signed', 'a.example', 'self_signed'],
      40,
    ],
    [
      'to an empty target removes the target if it turns TLS off',
      { enabled: false, target: '' },
      own,
      [false, 'self_signed', '', 'none'],
    ],
    [
      'to an empty target keeps the target while TLS is on',
      { target: '' },
      own,
      [true, 'self_signed', 'a.example', 'stored'],
    ],
    [
      'to another target creates a new certificate',
      { target: 'b.example' },
      own,
      [true, 'self_signed', 'b.example', 'self_signed'],
    ],
    [
      'to the mode uploaded uses the certificate in the request',
      { mode: 'uploaded', ...pair },
      own,
      [true, 'uploaded', 'a.example', 'upload'],
    ],
    [
      'with a certificate but no key is rejected',
      { mode: 'uploaded', certPem: 'x' },
      own,
      ['missing_field', 'key_pem'],
    ],
    [
      'to the mode uploaded is rejected if no certificate was ever uploaded',
      { mode: 'uploaded' },
      own,
      ['missing_field', 'cert_pem'],
    ],
    [
      'to the mode uploaded uses the certificate of an earlier upload if the request has none',
      { mode: 'uploaded' },
      { ...own, previous: stored('uploaded') },
      [true, 'uploaded', 'a.example', 'stored'],
    ],
    [
      'to the mode self_signed ignores a certificate in the request',
      { mode: 'self_signed', ...pair },
      own,
      [true, 'self_signed', 'a.example', 'stored'],
    ],
    [
      'to the mode letsencrypt requests a certificate from Let’s Encrypt',
      { mode: 'letsencrypt' },
      own,
      [true, 'letsencrypt', 'a.example', 'letsencrypt'],
    ],
  ] as [string, Partial<WantedTls>, TlsSettings, unknown[], number?][])
    it(what, () => expect(plan(wanted, old, nowMs)).to.deep.equal(expected))
})
