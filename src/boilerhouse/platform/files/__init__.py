"""Directory trees and files: walked, counted, removed, made durable, at any depth."""
