import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { parseUserData } from './user-data.js'

const config = '#cloud-config\nruncmd:\n- [touch, /x]\n'
const script = '#!/bin/sh\necho ä\n'
const base64 = (content: Buffer | string): string => Buffer.from(content).toString('base64')
const utf16 = (text: string): Buffer => Buffer.from(text, 'utf16le')
const latin1 = (bytes: Buffer): string => bytes.toString('latin1')

function message(...parts: [type: string, body: string, headers?: string][]): string {
  const body = parts.map(([type, text, headers = '']) => `--b1\nContent-Type: ${type}\n${headers}\n${text}\n`)
  return `MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b1"\n\n${body.join('')}--b1--\n`
}
const archive = (...entries: unknown[]): string => `#cloud-config-archive\n${JSON.stringify(entries)}\n`

const outcomeOf = (sent: string, os?: 'windows'): string => {
  try {
    return parseUserData(sent, os).type
  } catch (error) {
    return (error as Error).message
  }
}

describe('the check of cloud-init user data', () => {
  for (const [name, sent, type] of [
    ['a cloud-config', config, 'text/cloud-config'],
    ['an empty cloud-config', '#cloud-config\n', 'text/cloud-config'],
    [
      'a cloud-config with duplicate keys and a tag of YAML 1.1',
      '#cloud-config\na: 1\na: !!binary aGk=\n',
      'text/cloud-config',
    ],
    ['a cloud-config whose first line has capital letters', '#Cloud-Config\na: 1\n', 'text/cloud-config'],
    ['a script', script, 'text/x-shellscript'],
    ['a script whose first line contains a space and an argument', '#! /usr/bin/env bash\n', 'text/x-shellscript'],
    ['a boothook', `#cloud-boothook\n${script}`, 'text/cloud-boothook'],
    [
      'an include of two URLs',
      '#include\nhttps://example.com/a\n\n# comment\nhttp://example.com/b\n',
      'text/x-include-url',
    ],
    ['an include with its URL on the first line', '#include https://example.com/a', 'text/x-include-url'],
    ['an include-once', '#include-once\nhttps://example.com/a\n', 'text/x-include-once-url'],
    ['a part handler', '#part-handler\ndef list_types(): return []\n', 'text/part-handler'],
    [
      'a JSON patch of the cloud-config',
      '#cloud-config-jsonp\n[{"op": "add", "path": "/a", "value": 1}]',
      'text/cloud-config-jsonp',
    ],
    ['a Jinja template of a cloud-config', `## template: jinja\n${config}`, 'text/jinja2'],
    ['a Jinja template of a script', `## template: jinja\n${script}`, 'text/jinja2'],
    [
      'a Jinja template that begins with a statement',
      `## template: jinja\n{% if 1 %}\n${config}{% endif %}`,
      'text/jinja2',
    ],
    [
      'an archive',
      archive(script, { type: 'text/cloud-config', content: 'a: 1' }, { content: 'b: 2' }),
      'text/cloud-config-archive',
    ],
    ['a MIME message', message(['text/cloud-config', config], ['text/x-shellscript; charset="utf-8"', script]), 'mime'],
    ['a MIME message with a cloud-config declared as text/plain', message(['text/plain', config]), 'mime'],
    [
      'a MIME message in base64',
      message(['text/x-shellscript', base64(script), 'Content-Transfer-Encoding: base64\n']),
      'mime',
    ],
    [
      'a MIME message with gzip data',
      message(['application/gzip', base64(gzipSync(script)), 'Content-Transfer-Encoding: base64\n']),
      'mime',
    ],
    [
      'a quoted-printable part',
      message(['text/x-shellscript', '=23!/bin/sh\necho =C3=A4 =\nb', 'Content-Transfer-Encoding: quoted-printable\n']),
      'mime',
    ],
    ['a MIME message with a script for each boot', message(['text/x-shellscript-per-boot', script]), 'mime'],
    [
      'a MIME message with a custom type and its part handler',
      message(['text/part-handler', '#part-handler\n'], ['text/x-mine', 'x']),
      'mime',
    ],
    ['a MIME message without multipart', `Content-Type: text/x-shellscript\nMIME-Version: 1.0\n\n${script}`, 'mime'],
    [
      'a multipart MIME message inside another',
      message(['multipart/mixed; boundary="b2"', '--b2\n\n#!/bin/sh\n--b2--']),
      'mime',
    ],
  ] as const) {
    it(`accepts ${name} in every supported encoding and with every line ending`, () => {
      expect(parseUserData(sent)).to.deep.equal({ type, text: sent })
      const crlf = sent.replaceAll('\n', '\r\n')
      for (const [how, encoded, text] of [
        ['CRLF', crlf, crlf],
        ['a byte order mark', `\uFEFF${sent}`, sent],
        ['blank lines first', `\r\n  \n${sent}`, sent],
        ['base64', base64(sent), sent],
        ['base64 with line breaks', base64(sent).replace(/.{20}/g, '$&\r\n'), sent],
        ['base64 without padding', base64(sent).replace(/=+$/, ''), sent],
        ['gzip in base64', base64(gzipSync(sent)), sent],
        ['gzip, a character for each byte', latin1(gzipSync(sent)), sent],
        ['UTF-16 in base64', base64(utf16(`\uFEFF${crlf}`)), crlf],
        ['UTF-16 without a mark in base64', base64(utf16(sent)), sent],
        ['big-endian UTF-16 in base64', base64(utf16(`\uFEFF${sent}`).swap16()), sent],
        ['UTF-16, a character for each byte', latin1(utf16(`\uFEFF${sent}`)), sent],
        ['UTF-8 with a mark, a character for each byte', latin1(Buffer.from(`\uFEFF${sent}`)), sent],
      ] as const)
        expect(parseUserData(encoded), how).to.deep.equal({ type, text })
    })

    it(`changes nothing when it processes its own result again (${name})`, () =>
      expect(parseUserData(parseUserData(base64(sent)).text)).to.deep.equal({ type, text: sent }))
  }

  it('converts the lone carriage returns of old editors to line feeds', () =>
    expect(parseUserData('#!/bin/sh\recho\r').text).to.equal('#!/bin/sh\necho\n'))

  it('removes the "From " line that mail programs add to a MIME message', () =>
    expect(parseUserData(`From nobody Thu Jan  1 1970\n${message(['text/plain', script])}`).text).to.match(/^MIME-/))

  for (const [name, sent, reason] of [
    ['text in an unknown format', 'hello', /must be a MIME message or begin with/],
    ['a comment before the line #cloud-config', `# mine\n${config}`, /begin with/],
    ['a first line with a space after the #', '# cloud-config\na: 1\n', /begin with/],
    ['base64 of text in an unknown format', base64('hello world'), /begin with/],
    ['a cloud-config that is not YAML', '#cloud-config\na: [1\n', /is not valid YAML/],
    ['a cloud-config that is indented with a tab', '#cloud-config\na:\n\tb: 1\n', /is not valid YAML/],
    ['a cloud-config that is a list', '#cloud-config\n- a\n', /must be a YAML mapping/],
    ['a cloud-config that is plain text', '#cloud-config\nhello\n', /must be a YAML mapping/],
    [
      'a cloud-config with a YAML tag for Python objects, such as !!python/object',
      '#cloud-config\na: !!python/object:os.x {}\n',
      /is not valid YAML/,
    ],
    ['a script without an interpreter', '#!\necho\n', /absolute path/],
    ['a script with a relative interpreter', '#!sh\necho\n', /absolute path/],
    ['a boothook that is not a script', '#cloud-boothook\necho hi\n', /must begin with "#!"/],
    ['a boothook with mixed line endings', '#cloud-boothook\n#!/bin/sh\r\necho\r\n', /mix line endings/],
    ['an include without a URL', '#include\n# nothing\n', /must contain a URL/],
    ['an include of something that is not a URL', '#include\nexample.com/a b\n', /one URL/],
    ['a cloud-config patch that is not JSON', '#cloud-config-jsonp\n[', /valid JSON/],
    ['a cloud-config patch that is not a list', '#cloud-config-jsonp\n{}', /JSON list/],
    ['a Jinja template of a boothook', `## template: jinja\n#cloud-boothook\n${script}`, /must continue with/],
    ['a Jinja template of an include', '## template: jinja\n#include\nhttps://example.com\n', /must continue with/],
    ['an archive that is a mapping', '#cloud-config-archive\na: 1\n', /must be a YAML list/],
    [
      'an archive with an include as an entry',
      archive('#include\nhttps://example.com\n'),
      /entry 1 of the archive: .*ignores/,
    ],
    ['an archive with an entry of an unknown type', archive(script, { type: 'text/plain', content: 'x' }), /entry 2/],
    [
      'an archive with a script entry without an interpreter',
      archive({ type: 'text/x-shellscript', content: 'x' }),
      /entry 1.*#!/,
    ],
    ['an archive with a number as an entry', archive(7), /entry 1/],
    ['a MIME message without its final boundary', message(['text/plain', script]).replace('--b1--', ''), /cut off/],
    ['a MIME message without a boundary', 'MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx', /no boundary/],
    ['a MIME message without parts', message(), /has no part/],
    [
      'a MIME part of an unknown type',
      message(['application/json', '{}']),
      /part 1 .*ignores the type application\/json/,
    ],
    [
      'a MIME part with text in an unknown format',
      message(['text/plain', 'hello']),
      /part 1 .*ignores the type text\/plain/,
    ],
    ['a MIME part with a script that has no interpreter', message(['text/x-shellscript', 'echo']), /part 1 .*#!/],
    [
      'a MIME part that declares base64 but contains something else',
      message(['text/plain', '#!*', 'Content-Transfer-Encoding: base64\n']),
      /valid base64/,
    ],
    [
      'a MIME part that declares gzip data but contains something else',
      message(['application/gzip', 'x']),
      /damaged gzip/,
    ],
    [
      'a MIME part with an unknown transfer encoding',
      message(['text/plain', script, 'Content-Transfer-Encoding: x-uuencode\n']),
      /transfer encoding/,
    ],
    ['a MIME part with an unknown character set', message(['text/plain; charset=x', script]), /character set/],
    [
      'a MIME part that declares YAML but contains something else',
      message(['text/cloud-config', 'a: [']),
      /part 1 .*not valid YAML/,
    ],
    ['NUL characters', '#!/bin/sh\0\n', /NUL/],
    ['UTF-16 that was read as UTF-8', '\uFFFD\uFFFD#\0!\0/\0', /NUL/],
    ['gzip data that was read as UTF-8', '\u001f\uFFFD\b\0', /send gzip data as base64/],
    ['damaged gzip data', base64(gzipSync(script).subarray(0, 20)), /damaged gzip/],
    ['bytes that are not UTF-8', base64(Buffer.from('#!/bin/sh\n\xe4\n', 'latin1')), /not valid UTF-8/],
    ['an unpaired surrogate', '#!/bin/sh\n\ud800', /surrogates/],
    ['gzip data that expands endlessly', base64(gzipSync(Buffer.alloc(50_000_000))), /at most 262144 bytes/],
    [
      'YAML aliases that expand exponentially',
      `#cloud-config-archive\n- &a [x,x,x,x,x,x,x,x,x]\n- &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n- &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n- [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n`,
      /aliases|entry 1/,
    ],
  ] as const)
    it(`refuses ${name}`, () => {
      expect(outcomeOf(sent)).to.match(reason)
      expect(outcomeOf(sent)).to.match(/^user_data: /)
    })

  it('accepts only formats that cloudbase-init supports if the guest runs Windows', () => {
    for (const text of ['<powershell>\nls\n</powershell>', '#ps1_sysnative\nls', 'rem cmd\ndir', config])
      for (const sent of [text, base64(text), base64(utf16(`\uFEFF${text}`))])
        expect(parseUserData(sent, 'windows')).to.deep.equal({ type: 'windows', text })
    for (const sent of ['hello', '#include\nhttps://example.com\n'])
      expect(outcomeOf(sent, 'windows')).to.match(/cloudbase-init/)
  })
})
