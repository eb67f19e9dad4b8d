import { usernamePattern, usernameRule } from '../accounts/account-record.js'
import {
  descriptionPattern,
  guestNamePattern,
  guestNameRule,
  templateIdPattern,
  timeOfDayPattern,
  uuidPattern,
} from '../../shared/guest-rules.js'
import { imageNamePattern, imageUrlPattern, imageWordPattern, sha256Pattern } from '../../shared/image-rules.js'
import { notePattern, noteRule, tagPattern, tagRule } from '../../shared/label-rules.js'
import {
  hostLabelPattern,
  hostLabelRule,
  placementNamePattern,
  placementNameRule,
} from '../../shared/placement-rules.js'
import { suspensionTextPattern } from '../../shared/suspension-rules.js'

/** Pattern of a template's id, or of an empty text. */
export const optionalTemplateIdPattern = `${templateIdPattern}|^$`
/** Pattern of names of API keys and SSH keys: at least one visible character, no control characters or line breaks. */
export const keyNamePattern = '^(?=.*\\S)[^\\p{C}\\p{Zl}\\p{Zp}]*$'
/** Pattern of names of webhooks and providers. These names can be empty. */
export const printableNamePattern = '^[^\\p{C}\\p{Zl}\\p{Zp}]*$'
/** Pattern of names of network interfaces. Empty: the default interface. */
export const interfacePattern = '^[^\\s/\\u0000-\\u001f]{0,15}$'
export const gatewayNamePattern = '^[A-Za-z0-9][A-Za-z0-9-]{0,49}$'
export const sessionIdPattern = '^[0-9a-f]{32}$'
export const base64UrlPattern = '^[A-Za-z0-9_-]*$'

const printableLine = 'must be printable characters on one line'

/** A rule of a pattern: its name for clients that translate errors, and its description for messages. */
export interface PatternRule {
  readonly name: string
  readonly text: string
}

const rule = (name: string, text: string): PatternRule => ({ name, text })
const templateId = rule('image_id', 'must be an id of lower-case letters, digits, "." and "-"')

/** Rules of the patterns in request schemas. */
const rules: Readonly<Record<string, PatternRule>> = {
  [usernamePattern]: rule('username', usernameRule),
  [guestNamePattern]: rule('guest_name', guestNameRule),
  [templateIdPattern]: templateId,
  [optionalTemplateIdPattern]: templateId,
  [uuidPattern]: rule('uuid', 'must be a uuid in lower case'),
  [timeOfDayPattern]: rule('time_of_day', 'must be a time of day in the form HH:MM'),
  [descriptionPattern]: rule('description', `${printableLine}, at most 200`),
  [suspensionTextPattern]: rule('suspension_text', `${printableLine}, at most 500`),
  [tagPattern]: rule('tag', tagRule),
  [placementNamePattern]: rule('placement_name', placementNameRule),
  [hostLabelPattern]: rule('host_label', hostLabelRule),
  [notePattern]: rule('note', noteRule),
  [imageNamePattern]: rule('image_name', `${printableLine}, 1 to 100`),
  [imageWordPattern]: rule(
    'image_word',
    'must be 1 to 64 letters, digits, ".", "_", "+" or "-", starting with a letter or digit',
  ),
  [imageUrlPattern]: rule('image_url', 'must be an http or https URL, or upload:NAME'),
  [sha256Pattern]: rule('sha256', 'must be 64 hexadecimal digits'),
  [keyNamePattern]: rule('key_name', `${printableLine}, with at least one visible character`),
  [printableNamePattern]: rule('printable_line', printableLine),
  [interfacePattern]: rule('interface_name', 'must be the name of an interface, at most 15 characters'),
  [gatewayNamePattern]: rule(
    'gateway_name',
    'must be 1 to 50 letters, digits and "-", starting with a letter or digit',
  ),
  [sessionIdPattern]: rule('session_id', 'must be 32 hexadecimal digits in lower case'),
  [base64UrlPattern]: rule('base64url', 'must be base64url text without padding'),
}

/** All rules of patterns. */
export const patternRules: readonly PatternRule[] = Object.values(rules)

/** @returns undefined if no request schema contains the pattern */
export function ruleOfPattern(pattern: string): PatternRule | undefined {
  return rules[pattern]
}
