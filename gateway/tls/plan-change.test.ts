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
    ['does nothing if the request is empty and TLS is off', {}, untouched, [false, 'disabled', 'host.example', 'none']],
    ['cannot turn TLS on without a mode', { enabled: true }, untouched, ['invalid_field', 'mode']],
    [
      'turns TLS on if the request contains a mode',
      { mode: 'self_signed' },
      untouched,
      [true, 'self_signed', 'host.example', 'self_signed'],
    ],
    [
      'stores the mode of a request that turns TLS off',
      { mode: 'letsencrypt', enabled: false },
      own,
      [false, 'letsencrypt', 'a.example', 'none'],
    ],
    [
      'keeps the mode if the request only turns TLS off',
      { enabled: false },
      own,
      [false, 'self_signed', 'a.example', 'none'],
    ],
    ['turns TLS off in the mode disabled', { mode: 'disabled' }, own, [false, 'disabled', 'a.example', 'none']],
    [
      'keeps the certificate if the mode stays the same',
      { mode: 'self_signed' },
      own,
      [true, 'self_signed', 'a.example', 'stored'],
    ],
    [
      'renews a certificate that is due for renewal, even if the request is empty',
      {},
      own,
      [true, 'self_signed', 'a.example', 'self_signed'],
      40,
    ],
    [
      'removes the target if the request turns TLS off and its target is empty',
      { enabled: false, target: '' },
      own,
      [false, 'self_signed', '', 'none'],
    ],
    [
      'keeps the target if TLS stays on and the target of the request is empty',
      { target: '' },
      own,
      [true, 'self_signed', 'a.example', 'stored'],
    ],
    [
      'creates a new certificate for another target',
      { target: 'b.example' },
      own,
      [true, 'self_signed', 'b.example', 'self_signed'],
    ],
    [
      'uses the certificate in the request in the mode uploaded',
      { mode: 'uploaded', ...pair },
      own,
      [true, 'uploaded', 'a.example', 'upload'],
    ],
    [
      'is rejected if the request contains a certificate but no key',
      { mode: 'uploaded', certPem: 'x' },
      own,
      ['missing_field', 'key_pem'],
    ],
    [
      'is rejected in the mode uploaded if no certificate was ever uploaded',
      { mode: 'uploaded' },
      own,
      ['missing_field', 'cert_pem'],
    ],
    [
      'uses the certificate of an earlier upload in the mode uploaded if the request contains no certificate',
      { mode: 'uploaded' },
      { ...own, previous: stored('uploaded') },
      [true, 'uploaded', 'a.example', 'stored'],
    ],
    [
      'ignores a certificate in the request in the mode self_signed',
      { mode: 'self_signed', ...pair },
      own,
      [true, 'self_signed', 'a.example', 'stored'],
    ],
    [
      'requests a certificate from Let’s Encrypt in the mode letsencrypt',
      { mode: 'letsencrypt' },
      own,
      [true, 'letsencrypt', 'a.example', 'letsencrypt'],
    ],
  ] as [string, Partial<WantedTls>, TlsSettings, unknown[], number?][])
    it(what, () => expect(plan(wanted, old, nowMs)).to.deep.equal(expected))
})
