import { expect } from 'chai'
import { layoutNames, planTyping } from './keyboard-layouts.ts'

const typed = (text: string, layout: Parameters<typeof planTyping>[1]): string[] =>
  planTyping(text, layout).presses.map(
    ({ code, shift, altGr }) => `${shift ? 'Shift+' : ''}${altGr ? 'AltGr+' : ''}${code}`,
  )

describe('a text typed on a keyboard', () => {
  for (const layout of layoutNames)
    it(`can contain all printable ASCII characters that need no dead key, with the layout ${layout}`, () => {
      const dead = { us: '', gb: '', de: '^`´~', fr: '^¨' }[layout]
      const all = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join('')
      const wanted = [...all].filter((character) => !dead.includes(character)).join('')
      expect(planTyping(wanted, layout).missing).to.deep.equal([])
    })

  for (const [text, layout, keys] of [
    [
      'aB1!@#~',
      'us',
      ['KeyA', 'Shift+KeyB', 'Digit1', 'Shift+Digit1', 'Shift+Digit2', 'Shift+Digit3', 'Shift+Backquote'],
    ],
    ['a\tb \n', 'us', ['KeyA', 'Tab', 'KeyB', 'Space', 'Enter']],
    ['\r\n', 'us', ['Enter']],
    ['yz@ß|<', 'de', ['KeyZ', 'KeyY', 'AltGr+KeyQ', 'Minus', 'AltGr+IntlBackslash', 'IntlBackslash']],
    ['{[]}\\', 'de', ['AltGr+Digit7', 'AltGr+Digit8', 'AltGr+Digit9', 'AltGr+Digit0', 'AltGr+Minus']],
    ['aq1.@#', 'fr', ['KeyQ', 'KeyA', 'Shift+Digit1', 'Shift+Comma', 'AltGr+Digit0', 'AltGr+Digit3']],
    ['wm,;/', 'fr', ['KeyZ', 'Semicolon', 'KeyM', 'Comma', 'Shift+Period']],
    [
      '£"@#~\\|',
      'gb',
      [
        'Shift+Digit3',
        'Shift+Digit2',
        'Shift+Quote',
        'Backslash',
        'Shift+Backslash',
        'IntlBackslash',
        'Shift+IntlBackslash',
      ],
    ],
  ] as const)
    it(`is typed with the correct keys of the layout ${layout}: ${JSON.stringify(text)}`, () =>
      expect(typed(text, layout)).to.deep.equal(keys))

  it('is rejected as a whole, with a list of the characters that cannot be typed', () =>
    expect(planTyping('a中文中é\u0000', 'us')).to.deep.equal({
      presses: [],
      missing: ['中', '文', 'é', '\u0000'],
    }))
})
